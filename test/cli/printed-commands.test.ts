import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { aTenant } from "../support/app.ts";
import { clientOf } from "../support/client.ts";
import { blockWith, commandsOf, finished, runPrinted } from "../support/commands.ts";
import { root } from "../support/documents.ts";
import { freePort, startProcess, temporaryDir } from "../support/process.ts";

const OPERATE = "docs/guides/operate.md";
const PASSWORD = "Correct-horse-7";

describe("the commands that the documents print for operators", function () {
  this.timeout(180_000);
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let env: Record<string, string>;
  before(async () => {
    dir = await temporaryDir();
    env = { DATA_DIR: join(dir.path, "data"), DEMO: "off", LOG_LEVEL: "error" };
  });
  after(() => dir.remove());

  it("show, take back and apply migrations", async () => {
    const [status, up, down] = commandsOf(blockWith(OPERATE, "npm run migrate")) as [string, string, string];
    assert.match(await finished(runPrinted(up, env)), /^up {2}\d+-/m);
    assert.doesNotMatch(await finished(runPrinted(status, env)), /^pending/m);
    const [, taken = ""] = /^down {2}(\S+)$/m.exec(await finished(runPrinted(down, env))) ?? [];
    assert.ok((await finished(runPrinted(status, env))).includes(`pending  ${taken}`));
    assert.ok((await finished(runPrinted(up, env))).includes(`up  ${taken}`));
  });

  it("make the first super-admin, and list them", async () => {
    const [create] = commandsOf(blockWith(OPERATE, "admin create")) as [string];
    await finished(runPrinted(create, env, { text: `${PASSWORD}\n` }));
    const [again, list] = commandsOf(blockWith("docs/guides/accounts.md", "admin create")) as [
      string,
      string,
    ];
    assert.equal(again, create);
    assert.match(await finished(runPrinted(list, env)), /root@example\.com/);
  });

  it("reconcile all projects, and one of them", async () => {
    const commands = commandsOf(blockWith(OPERATE, "reconcile"));
    assert.equal(commands.length, 3);
    const id = "00000000-0000-7000-8000-000000000000";
    for (const command of commands) {
      const output = await finished(runPrinted(command.replace("<id>", id), env));
      assert.match(output, /0 findings|"findings":0/, command);
    }
  });

  it("import a file of events into a server", async () => {
    const [command] = commandsOf(blockWith("README.md", "import history.ndjson.gz")) as [string];
    const port = await freePort();
    const server = await startProcess(["serve"], { ...env, PORT: String(port) });
    const { key } = await aTenant(clientOf(`http://127.0.0.1:${port}`));
    // The files stand beside the checkout's bin as for a reader, in a folder that goes again.
    const folder = await mkdtemp(join(root, ".laurel-printed-"));
    try {
      await writeFile(join(folder, "history.ndjson.gz"), '{"externalUserId":"u17","eventType":"played"}\n');
      await writeFile(join(folder, "key.txt"), key);
      const there = command.replace("node bin/laurel.mjs", `cd ${folder} && node ../bin/laurel.mjs`);
      const output = await finished(runPrinted(`${there} --url http://127.0.0.1:${port}`, env));
      assert.match(output, /1 accepted|accepted\D+1/);
    } finally {
      await rm(folder, { recursive: true });
      server.child.kill("SIGTERM");
      await server.ended;
    }
  });
});
