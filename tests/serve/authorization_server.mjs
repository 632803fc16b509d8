// A real authorization server for the tests of sign-in: node authorization_server.mjs MODULES RESOURCE
// Prints its address when it listens. Any name signs in with any password.
import { generateKeyPairSync, randomBytes } from "node:crypto"
import { createServer } from "node:http"
import { pathToFileURL } from "node:url"

const [modules, resource] = process.argv.slice(2)
const { default: Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`))

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
const scopes = "memory:read memory:write memory:admin"
const server = createServer()
await new Promise((done) => server.listen(0, "127.0.0.1", done))
const issuer = `http://127.0.0.1:${server.address().port}`
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: "first", use: "sig", alg: "RS256" }] },
  scopes: ["openid", "offline_access", ...scopes.split(" ")],
  // Beside clients that register themselves, which get only the scopes that they first asked for.
  clients: [
    {
      client_id: "host",
      token_endpoint_auth_method: "none",
      redirect_uris: ["http://127.0.0.1:9/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      scope: `openid offline_access ${scopes}`,
    },
  ],
  // Who signs in as ana+shop-writers is ana of that group.
  extraTokenClaims: (ctx, token) => ({ groups: (token.accountId ?? "").split("+").slice(1) }),
  cookies: { keys: [randomBytes(32).toString("hex")] },
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, wanted) => ({
        scope: scopes,
        audience: wanted,
        accessTokenTTL: 300,
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
})
server.on("request", provider.callback())
console.log(issuer)
