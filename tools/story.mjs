// The whole story, told by the TypeScript SDK's client: save, search, triggers, load, validate, link, why,
// checkpoint, delete, restore. Run by tools/conformance.py:
//     node story.mjs MODULES ERA URL            over HTTP
//     node story.mjs MODULES ERA COMMAND ARG…   over standard input and output
// MODULES is the folder that holds node_modules.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, era, target, ...words] = process.argv.slice(2);
const from = createRequire(pathToFileURL(`${modules}/package.json`));
const { Client, StreamableHTTPClientTransport } = from('@modelcontextprotocol/client');
const { StdioClientTransport } = from('@modelcontextprotocol/client/stdio');

const versionNegotiation = era === 'legacy' ? { mode: 'legacy' } : { mode: { pin: era } };
const client = new Client({ name: 'story', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation });
const asked = [];
client.setRequestHandler('elicitation/create', (request) => {
  asked.push(request.params.message);
  const [name, property] = Object.entries(request.params.requestedSchema.properties)[0];
  return { action: 'accept', content: { [name]: property.enum ? property.enum[0] : true } };
});
const overHttp = target.startsWith('http');
await client.connect(
  overHttp
    ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args: words, stderr: 'inherit' }),
);

const call = async (name, args = {}) => {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, `${name}: text and structure differ`);
  return result.structuredContent.data;
};
const refused = async (name, args, code) => {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(result.isError, `${name} should have refused ${JSON.stringify(args)}`);
  assert.equal(JSON.parse(result.content[0].text).code, code);
};

const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert.equal(tools[0], 'memory_search');
assert.ok(tools.length >= 21);

const context = {
  title: 'Tokens instead of sessions',
  sessionSummary: 'Replaced server sessions by signed tokens.',
  keyDecisions: [{ decision: 'Use JWT', rationale: 'No shared session store', alternatives: ['Redis'] }],
  nextSteps: ['Rotate the signing key'],
  triggerPhrases: ['signed tokens'],
};
const old = (await call('memory_save', {
  context: { title: 'Sessions in Redis', sessionSummary: 'Sessions are kept in Redis, for a day.' },
  specFolder: '007-auth',
})).id;
const fresh = (await call('memory_save', { context, specFolder: '007-auth' })).id;
assert.notEqual(fresh, old);

const found = (await call('memory_search', { query: 'why signed tokens', limit: 5 })).results;
assert.equal(found[0].id, fresh);
const lines = await call('memory_get', { path: found[0].path, lines: found[0].lines });
assert.equal(lines.text.trim(), found[0].text.trim());
const matched = await call('memory_match_triggers', { prompt: 'Where are SIGNED  tokens checked?', session_id: 's1' });
assert.equal(matched.matches[0].id, fresh);
assert.match((await call('memory_load', { memoryId: fresh, anchorId: 'next-steps' })).text, /Rotate the signing key/);
assert.match((await call('memory_context', { specFolder: '007-auth' })).text, /Rotate the signing key/);
assert.equal((await call('memory_validate', { id: fresh, wasUseful: true })).confidence, 0.6);

const link = await call('memory_causal_link', { sourceId: fresh, targetId: old, relation: 'supersedes' });
const why = await call('memory_drift_why', { memoryId: fresh });
assert.ok(why.memories.some((row) => row.id === old));
await call('checkpoint_create', { name: 'before' });
assert.deepEqual((await call('memory_delete', { id: old })).deleted, [old]);
assert.equal((await call('memory_list')).total, 1);
await refused('memory_load', { memoryId: old + 1000 }, 'E080');
await refused('memory_search', {}, 'E040');
await refused('memory_search', { query: 'x', limit: 1000 }, 'E032');
await call('checkpoint_restore', { name: 'before' });
assert.equal((await call('memory_list')).total, 2);
await call('memory_causal_unlink', { linkId: link.link.id });
await call('checkpoint_delete', { name: 'before' });
assert.ok((await call('memory_history')).ledger.ok);

const folders = (await client.listResources()).resources.map((resource) => resource.uri);
assert.ok(folders.includes('memory://folder/007-auth'));
assert.match((await client.readResource({ uri: `memory://${fresh}` })).contents[0].text, /signed tokens/);
assert.ok((await client.listPrompts()).prompts.some((prompt) => prompt.name === 'resume'));
assert.match((await client.getPrompt({ name: 'search', arguments: { query: 'tokens' } })).messages[0].content.text, /tokens/);

// A rule needs a person: the client is asked, and says yes.
await call('memory_update', { id: old, importanceTier: 'constitutional' });
assert.equal(asked.length, 1);

await client.close();
console.log(`the story holds: ${overHttp ? 'HTTP' : 'stdio'}, ${era}, ${tools.length} tools`);
process.exit(0);
