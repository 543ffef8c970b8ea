import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildConsole } from "../../src/cli/serve.ts";
import { createLog } from "../../src/log.ts";
import { eventually } from "../support/eventually.ts";
import { madeForEach } from "../support/made.ts";
import { temporaryDir } from "../support/processes/process.ts";

const SCRIPT = join(import.meta.dirname, "../../scripts/console.mjs");

/** Makes what a build of Vite makes: a page, and an asset whose name comes from what is in it. */
const BUILD = `
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
const out = process.argv[3];
const text = readFileSync("src/main.js", "utf8").trim();
appendFileSync("../builds", text + "\\n");
if (text === "broken") { console.error("main.js: Unexpected token"); process.exit(1); }
if (text === "endless") setInterval(() => {}, 1000);
else {
  mkdirSync(out + "/assets", { recursive: true });
  writeFileSync(out + "/assets/main-" + text + ".js", text);
  writeFileSync(out + "/index.html", text + readFileSync("src/generated/forms", "utf8"));
}
`;

describe("the build of the console", () => {
  const dir = madeForEach(temporaryDir);
  const folder = () => join(dir.path, "console");
  const dist = (name: string) => join(folder(), "dist", name);
  const builds = async () => (await readFile(join(dir.path, "builds"), "utf8")).trim().split("\n");
  const assets = async () => (await readdir(dist("assets"))).toSorted();
  const page = () => readFile(dist("index.html"), "utf8");
  const source = (text: string) => writeFile(join(folder(), "src/main.js"), text);

  const run = async () => {
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, folder()]);
      return { code: 0, said: stdout };
    } catch (error) {
      const { code, stderr } = error as { code: number; stderr: string };
      return { code, said: stderr };
    }
  };

  const operation = (text: string) => writeFile(join(dir.path, "src/operation.ts"), text);

  beforeEach(async () => {
    for (const path of [join(folder(), "src"), join(dir.path, "src")]) await mkdir(path, { recursive: true });
    await operation("-first");
    const names = { name: "console", version: "1.0.0" };
    const generate = "mkdir -p src/generated && cut -c1-7 ../src/operation.ts > src/generated/forms";
    const scripts = { generate, build: "node build.mjs" };
    const lock = { ...names, lockfileVersion: 3, requires: true, packages: { "": names } };
    for (const [name, text] of [
      ["package.json", JSON.stringify({ ...names, scripts })],
      ["package-lock.json", JSON.stringify(lock)],
      ["build.mjs", BUILD],
    ] as const)
      await writeFile(join(folder(), name), text);
    await source("one");
  });
  afterEach(() => dir.remove());

  it("is done once for the same sources, and keeps the assets of the build before", async () => {
    assert.match((await run()).said, /^The console was built in \d+ s\n$/);
    assert.match(await page(), /^one/);
    assert.deepEqual(await run(), { code: 0, said: "The console is up to date\n" });
    await source("two");
    await run();
    assert.deepEqual(await assets(), ["main-one.js", "main-two.js"]);
    await source("three");
    await run();
    assert.match(await page(), /^three/);
    assert.deepEqual(await assets(), ["main-three.js", "main-two.js"]);
    assert.deepEqual(await builds(), ["one", "two", "three"]);
  });

  it("is done again for what operations of the server say, and for nothing else of it", async () => {
    await run();
    for (const [text, shown] of [
      ["-second", "one-second"],
      ["-second, in other words", "one-second"],
    ] as const) {
      await operation(text);
      assert.equal((await run()).code, 0);
      assert.equal((await page()).slice(0, 10), shown);
    }
    assert.deepEqual(await builds(), ["one", "one"]);
    assert.match((await run()).said, /up to date/);
  });

  it("that fails says why, leaves the last one in place, and is tried again", async () => {
    await run();
    await source("broken");
    for (let i = 0; i < 2; i++) {
      const { code, said } = await run();
      assert.equal(code, 1);
      assert.match(said, /^The console could not be built: npm run build [^]*Unexpected token/);
    }
    assert.match(await page(), /^one/);
    assert.deepEqual(await assets(), ["main-one.js"]);
  });

  it("is done by one of several processes that are asked at once", async () => {
    const answers = await Promise.all([run(), run(), run()]);
    assert.deepEqual([...new Set(answers.map(({ code }) => code))], [0]);
    assert.deepEqual(await builds(), ["one"]);
  });

  const lines: string[] = [];
  const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
  const beside = (stopping: AbortSignal) =>
    buildConsole({ config: { consoleDir: join(folder(), "dist"), isConsoleBuilt: true }, log }, stopping);

  it("beside a server tells its log how it ended", async () => {
    beside(new AbortController().signal);
    await eventually(() => lines.some((line) => line.includes("The console was built")));
    assert.match(await page(), /^one/);
  });

  it("beside a server ends with it, and all that it has started", async () => {
    await source("endless");
    const server = new AbortController();
    beside(server.signal);
    await eventually(() => existsSync(join(dir.path, "builds")));
    const left = async () =>
      (await promisify(execFile)("ps", ["-eo", "args"])).stdout.includes(dist(".next"));
    assert.equal(await left(), true);
    server.abort();
    await eventually(async () => !(await left()));
  });
});
