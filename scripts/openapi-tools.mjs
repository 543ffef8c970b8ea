// Puts the tools that read OpenAPI documents before ours, all at once: three judge it, and the code that
// three others make of it must compile. Prints what they find; exits with 1 if that is anything.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const TIMEOUT_MS = 5 * 60_000;
const root = join(import.meta.dirname, "..");
const tools = join(root, "node_modules/openapi-tools");
if (!existsSync(join(tools, "node_modules")) && !existsSync(join(root, "node_modules/@redocly"))) {
  console.error("The tools are not installed: node scripts/setup.mjs installs them");
  process.exit(1);
}
const { resolve } = createRequire(join(tools, "package.json"));

/**
 * What Redocly finds and what must stay: paths that differ by their method or a fixed word, which the server
 * tells apart, and redirections of a browser, which have no other success.
 */
const EXPECTED = [
  ["no-ambiguous-paths", /^Paths should .* `\/lobbies\/by-code\/\{code\}` and `\/lobbies\/\{lobbyId\}\/\w/],
  ["operation-2xx-response", /#\/paths\/~1auth~1oauth~1\{provider\}(~1callback)?\/get\/responses$/],
  [
    "operation-2xx-response",
    /#\/paths\/~1auth~1sso~1(oidc~1|saml~1)?\{tenantId\}(~1callback|~1acs)?\/(get|post)\/responses$/,
  ],
];

/** The program of a package, by its folder and the name in its `bin`. */
const binOf = (name, bin = name.split("/").at(-1)) => {
  const folders = [join(tools, "node_modules", name), join(root, "node_modules", name)];
  for (const folder of folders) {
    try {
      const { bin: bins } = createRequire(join(folder, "package.json"))("./package.json");
      return join(folder, typeof bins === "string" ? bins : bins[bin]);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new Error(`${name} is not installed`);
};

const run = async (args, cwd) => {
  const child = spawn(process.execPath, args, {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: TIMEOUT_MS,
    env: { ...process.env, NODE_V8_COVERAGE: undefined, REDOCLY_TELEMETRY: "off", NO_COLOR: "1" },
  });
  const [out, err] = [[], []];
  child.stdout.on("data", (chunk) => out.push(chunk));
  child.stderr.on("data", (chunk) => err.push(chunk));
  const [status] = await once(child, "close");
  return { status, out: Buffer.concat(out).toString(), text: Buffer.concat([...out, ...err]).toString() };
};

const folder = mkdtempSync(join(tmpdir(), "laurel-openapi-"));
const file = join(folder, "openapi.json");

/** What a program says, if it fails. */
const failure = async (args) => {
  const { status, text } = await run(args, folder);
  return status === 0 ? [] : [text.trim()];
};

const parse = async () => {
  const { validate } = (await import(resolve("@apidevtools/swagger-parser"))).default;
  try {
    await validate(file);
    return [];
  } catch (error) {
    return [error.message];
  }
};

const redocly = async () => {
  const args = [
    binOf("@redocly/cli", "redocly"),
    "lint",
    "--extends",
    "recommended",
    "--format",
    "json",
    file,
  ];
  const { out, text } = await run(args, folder);
  if (!out.includes('"problems"')) return [text];
  const problems = JSON.parse(out.slice(out.indexOf("{"))).problems.map(({ ruleId, message, location }) => ({
    ruleId,
    text: `${message} ${location[0].pointer}`,
  }));
  const isExpected = ({ ruleId, text: found }) =>
    EXPECTED.some(([rule, pattern]) => rule === ruleId && pattern.test(found));
  return problems.filter((one) => !isExpected(one)).map((one) => `${one.ruleId}: ${one.text}`);
};

const spectral = async () => {
  writeFileSync(join(folder, "spectral.json"), JSON.stringify({ extends: ["spectral:oas"] }));
  const args = [binOf("@stoplight/spectral-cli", "spectral"), "lint", "--fail-severity", "hint", file];
  return failure([...args, "--ruleset", join(folder, "spectral.json")]);
};

const OUTPUT = {
  "openapi-typescript": () => [binOf("openapi-typescript"), file, "--output", join(folder, "types.ts")],
  "@hey-api/openapi-ts": () => [
    binOf("@hey-api/openapi-ts"),
    "--input",
    file,
    "--output",
    join(folder, "hey-api"),
    "--no-log-file",
  ],
  orval: () => [
    binOf("orval"),
    "--input",
    file,
    "--output",
    join(folder, "orval/api.ts"),
    "--client",
    "fetch",
  ],
};

const compile = async () => {
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "ES2022",
    lib: ["ES2024", "DOM", "DOM.Iterable"],
    module: "ESNext",
    moduleResolution: "Bundler",
    types: [],
  };
  const include = ["types.ts", "hey-api", "orval"];
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include }));
  return failure([join(root, "node_modules/typescript/bin/tsc"), "--project", folder]);
};

const found = [];
const timed = async (name, look) => {
  const startedAt = Date.now();
  const problems = await look();
  found.push(...problems.map((problem) => `${name}: ${problem}`));
  console.log(`${name}: ${problems.length === 0 ? "nothing" : "found"} (${Date.now() - startedAt} ms)`);
};

const made = await run([join(root, "src/main.ts"), "openapi"], root);
if (made.status !== 0) throw new Error(made.text);
mkdirSync(dirname(file), { recursive: true });
writeFileSync(file, made.out);
const generate = async () => {
  await Promise.all(Object.entries(OUTPUT).map(([name, args]) => timed(name, () => failure(args()))));
  await timed("tsc --strict", compile);
};
await Promise.all([
  timed("swagger-parser", parse),
  timed("redocly", redocly),
  timed("spectral", spectral),
  generate(),
]);
rmSync(folder, { recursive: true });
for (const one of found) console.log(`\n${one}`);
process.exit(found.length > 0 ? 1 : 0);
