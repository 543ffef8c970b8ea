import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { clientOf, must } from "../support/http/client.ts";
import { blockWith, commandsOf, descendantsOf, finished, runPrinted } from "../support/documents/commands.ts";
import { root } from "../support/documents/documents.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, startProcess, temporaryDir } from "../support/processes/process.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";

const OPERATE = "docs/guides/operate.md";
const WEBHOOKS = "docs/guides/webhooks.md";
const PASSWORD = "Correct-horse-7";

describe("the commands that the documents print for operators", function () {
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
    const [, taken = ""] = /^down {2}(\S+)$/m.exec(await finished(runPrinted(`${down} --yes`, env))) ?? [];
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

  it("verify and rebuild the rollups of analytics", async () => {
    const commands = commandsOf(blockWith(OPERATE, "analytics verify"));
    assert.equal(commands.length, 2);
    for (const command of commands.toReversed())
      assert.doesNotMatch(await finished(runPrinted(command, env)), /[1-9]\d* differences/);
  });

  it("reconcile all projects, and one of them", async () => {
    const commands = commandsOf(blockWith(OPERATE, "reconcile"));
    assert.equal(commands.length, 3);
    const port = await freePort();
    const server = await startProcess(["serve"], { ...env, PORT: String(port) });
    const { projectId } = await aTenant(clientOf(`http://127.0.0.1:${port}`));
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());
    for (const command of commands) {
      const output = await finished(runPrinted(command.replace("<id>", projectId), env));
      assert.match(output, /0 findings|"findings":0/, command);
    }
  });

  describe("on a server", () => {
    let api: TestApp;
    let folder: string;
    before(async () => {
      api = await startApp();
      // The files stand beside the checkout's bin as for a reader, in a folder that goes again.
      folder = await mkdtemp(join(root, ".laurel-printed-"));
    });
    after(() => rm(folder, { recursive: true }));

    it("import a file of events", async () => {
      const [command] = commandsOf(blockWith("docs/guides/import.md", "import history.ndjson.gz")) as [
        string,
      ];
      const { key } = await aTenant(api);
      await writeFile(join(folder, "history.ndjson.gz"), '{"externalUserId":"u17","eventType":"played"}\n');
      await writeFile(join(folder, "key.txt"), key);
      const there = command.replace("node bin/laurel.mjs", `cd ${folder} && node ../bin/laurel.mjs`);
      const output = await finished(runPrinted(`${there} --url ${api.url}`, env));
      assert.match(output, /1 accepted|accepted\D+1/);
    });

    it("take a configuration from one project to another, first to look at the changes", async () => {
      const [there, here] = [await aTenant(api), await aTenant(api)];
      const badge = { key: "found", name: "Found" };
      must(await api.post("/api/v1/badges", badge, { key: there.key }), 201);
      const keyOf = ({ token, projectId }: Tenant, scopes: string[]): Promise<string> =>
        aKey(api, { token, projectId, scopes });
      // Those that the guide names, and no more.
      const writes = ["config:manage", "rules:manage", "leaderboards:manage", "config:read"];
      const keys = {
        FROM: api.url,
        TO: api.url,
        KEY_THERE: await keyOf(there, ["config:read"]),
        KEY_HERE: await keyOf(here, writes),
      };
      const commands = commandsOf(blockWith(OPERATE, "config export")).map((command) =>
        command.replace("node bin/laurel.mjs", `cd ${folder} && node ../bin/laurel.mjs`),
      );
      assert.equal(commands.length, 4);
      const told = [];
      for (const command of commands) told.push(await finished(runPrinted(command, { ...env, ...keys })));
      assert.match(told[1]!, /^\+ badges found$/m);
      assert.equal(told[2], told[1]);
      assert.equal(told[3], "no difference\n");
    });

    it("forward events to a program that is being written, and make one happen", async () => {
      const { key } = await aTenant(api);
      const receiver = await startReceiver((response) => response.writeHead(200).end("so"));
      const [listen] = commandsOf(blockWith(WEBHOOKS, "laurel.mjs listen")) as [string];
      const [trigger] = commandsOf(blockWith(WEBHOOKS, "laurel.mjs trigger")) as [string];
      const to = `--url ${api.url}`;
      const forward = listen.replace("http://localhost:9000", receiver.url);
      const there = { ...env, KEY: key, SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}` };
      const listening = runPrinted(`${forward} ${to}`, there);
      try {
        await eventually(() => /^ready/m.test(listening.output()), { timeoutMs: 60_000 });
        await finished(runPrinted(`${trigger} ${to}`, there));
        await eventually(() => receiver.received.length > 0, { timeoutMs: 60_000 });
      } finally {
        for (const { pid } of descendantsOf(listening.child.pid!)) process.kill(pid, "SIGTERM");
        await listening.ended;
        await receiver.close();
      }
    });
  });
});
