// Puts tools of others before our OpenAPI document: Redocly judges it, and the types that openapi-typescript
// makes of it must compile. Prints what they find; exits with 1 if that is anything.
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const { resolve } = createRequire(join(root, "node_modules/openapi-tools/package.json"));
const folder = mkdtempSync(join(tmpdir(), "laurel-openapi-"));
const file = join(folder, "openapi.json");
const types = join(folder, "types.ts");

/**
 * What Redocly finds and what must stay: paths that differ by their method or a fixed word, which the server
 * tells apart, and redirections of a browser, which have no other success.
 */
const EXPECTED = [
  /^no-ambiguous-paths: Paths should .* `\/lobbies\/by-code\/\{code\}` and `\/lobbies\/\{lobbyId\}\/\w/,
  /^operation-2xx-response: .*#\/paths\/~1auth~1oauth~1\{provider\}(~1callback)?\/get\/responses$/,
  /^operation-2xx-response: .*#\/paths\/~1auth~1sso~1(oidc~1|saml~1)?\{tenantId\}(~1callback|~1acs)?\/(get|post)\/responses$/,
];

const run = (args) => {
  const env = { ...process.env, NODE_V8_COVERAGE: undefined, REDOCLY_TELEMETRY: "off", NO_COLOR: "1" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    env,
    encoding: "utf8",
    maxBuffer: 256 * 1_048_576,
  });
  return { isGood: status === 0, out: stdout, text: `${stdout}${stderr}`.trim() };
};

/** The program of a package of the tools. */
const binOf = (name, path) => join(dirname(resolve(`${name}/package.json`)), path);

const lint = () => {
  const redocly = [binOf("@redocly/cli", "bin/cli.js"), "lint", "--extends", "recommended"];
  const { out, text } = run([...redocly, "--format", "json", file]);
  if (!out.includes('"problems"')) return [text];
  return JSON.parse(out.slice(out.indexOf("{")))
    .problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0].pointer}`)
    .filter((problem) => !EXPECTED.some((pattern) => pattern.test(problem)));
};

/** What a client may write that leaves out the fields with defaults. */
const SNIPPET = `
type Grant = paths["/players/{playerId}/xp"]["post"]["requestBody"]["content"]["application/json"];
export const grant: Grant = { amount: 5 };
`;

const generate = () => {
  // As the guide has it: otherwise fields with defaults are demanded of clients.
  const options = ["--default-non-nullable=false", "--output", types];
  const made = run([binOf("openapi-typescript", "bin/cli.js"), file, ...options]);
  if (!made.isGood) return [made.text];
  appendFileSync(types, SNIPPET);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const compiled = run([tsc, "--strict", "--noEmit", "--ignoreConfig", "--target", "ES2022", types]);
  return compiled.isGood ? [] : [compiled.text];
};

const document = run([join(root, "src/main.ts"), "openapi"]);
if (!document.isGood) throw new Error(document.text);
writeFileSync(file, document.out);
const found = [...lint(), ...generate()];
rmSync(folder, { recursive: true });
console.log(found.length === 0 ? "redocly and openapi-typescript find nothing" : found.join("\n"));
process.exit(found.length > 0 ? 1 : 0);
