// Written by `skm install opencode`; `skm uninstall opencode` removes it.
// OpenCode has plugins where other hosts have hooks: each event below runs `skm hook`, and what that prints is
// passed on. A hook that fails or takes too long adds nothing; it never stands in the way of a message.
import { spawn } from "node:child_process"

const PROGRAM = ["skm"]
const DEADLINE_MS = 10_000
// The plugin may be installed for the project and for the user; both copies know the same sessions, so that each
// message is looked at once. `source` says how a session's next message finds it; a session that is not here was
// begun by another process.
const sessions = (globalThis[Symbol.for("spec_kit_memory.sessions")] ??= new Map())

function hook(event, input) {
  return new Promise((resolve) => {
    try {
      const [command, ...rest] = [...PROGRAM, "hook", event, "--host", "opencode"]
      const child = spawn(command, rest, { cwd: input.cwd, stdio: ["pipe", "pipe", "ignore"], timeout: DEADLINE_MS })
      const chunks = []
      child.stdout.on("data", (chunk) => chunks.push(chunk))
      child.on("error", () => resolve(""))
      child.on("close", (code) => resolve(code === 0 ? Buffer.concat(chunks).toString("utf8").trim() : ""))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(input))
    } catch {
      resolve("")
    }
  })
}

export const SpecKitMemory = async ({ directory }) => ({
  event: async ({ event }) => {
    const info = event.properties?.info
    const id = event.properties?.sessionID ?? info?.id
    if (event.type === "session.created") {
      sessions.set(id, { source: "startup", subagent: Boolean(info?.parentID) })
    } else if (event.type === "session.compacted") {
      sessions.set(id, { ...sessions.get(id), source: "compact" })
    } else if (event.type === "session.deleted") {
      const known = sessions.get(id)
      sessions.delete(id)
      if (known?.told) await hook("session-end", { session_id: id, cwd: directory })
    }
  },
  "chat.message": async ({ sessionID }, { message, parts }) => {
    const session = sessions.get(sessionID) ?? { source: "resume" }
    const written = parts.filter((part) => part.type === "text" && !part.synthetic)
    if (session.subagent || session.message === message.id || !written.length) return
    sessions.set(sessionID, { told: true, message: message.id })
    const input = { session_id: sessionID, cwd: directory }
    const context = session.source ? await hook("session-start", { ...input, source: session.source }) : ""
    const prompt = written.map((part) => part.text).join("\n")
    const text = [context, await hook("prompt", { ...input, prompt })].filter(Boolean).join("\n\n")
    if (!text) return
    // Parts are ordered by their ids, which begin with a time: ours comes after what the user wrote.
    const random = Math.random().toString(36).slice(2, 12).padEnd(10, "0")
    const id = `${parts.at(-1).id.slice(0, 16)}zzzz${random}`
    parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
  },
  "experimental.session.compacting": async ({ sessionID }, { context }) => {
    const text = await hook("pre-compact", { session_id: sessionID, cwd: directory })
    if (text && !context.includes(text)) context.push(text)
  },
})
