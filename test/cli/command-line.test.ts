import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { laurel, linesOf, temporaryDir } from "../support/processes/process.ts";
import { pluck } from "../support/pluck.ts";

const run = async (args: string[], env: Record<string, string> = {}) => {
  const { ended, output } = laurel(args, env);
  return { code: await ended, text: await ended.then(output) };
};

describe("the command line", () => {
  it("ends with 2 when a command is misused, and says how it is used", async () => {
    for (const args of [
      [],
      ["bogus"],
      ["serve", "--bogus"],
      ["import"],
      ["migrate", "sideways"],
      ["demo", "bogus"],
    ]) {
      const { code, text } = await run(args);
      assert.equal(code, 2, `${args.join(" ")}: ${text}`);
      assert.match(text, /Usage: laurel/);
    }
  });

  it("says after a misuse how that command is used, and not the others", async () => {
    for (const args of [
      ["migrate", "down"],
      ["migrate", "sideways"],
      ["reconcile", "--project", "nonsense"],
    ]) {
      const { code, text } = await run(args);
      assert.deepEqual([code, text.match(/Usage: laurel \w+/g)], [2, [`Usage: laurel ${args[0]}`]], text);
    }
  });

  it("takes the server's address from URL, as the guides export it, and from --url before that", async () => {
    const file = ["import", "none.ndjson", "--key", "svc_test_x"];
    assert.match((await run(file, { URL: "ftp://nowhere" })).text, /--url must be an http or https address/);
    const both = await run([...file, "--url", "http://127.0.0.1:9"], { URL: "ftp://nowhere" });
    assert.doesNotMatch(both.text, /--url must be/);
  });

  it("ends with 0 after help and version", async () => {
    for (const args of [["--help"], ["import", "--help"], ["help", "demo"], ["--version"]])
      assert.equal((await run(args)).code, 0, args.join(" "));
  });

  it("ends without a stack trace when the reader of its output has left", async () => {
    const { path, remove } = await temporaryDir();
    for (const args of [["doctor"], ["doctor", "--json"], ["openapi"]]) {
      const { child, ended, output } = laurel(args, { DATA_DIR: path });
      child.stdout!.destroy();
      assert.equal(await ended, 141, `${args.join(" ")}: ${output()}`);
      assert.equal(output(), "");
    }
    await remove();
  });

  it("ends with 1 and names the remedy when the settings are wrong", async () => {
    const { code, text } = await run(["serve"], { PORT: "http", MODE: "cluster" });
    assert.equal(code, 1);
    const [{ level, msg } = { level: "", msg: "" }, ...more] = linesOf(text);
    assert.deepEqual([level, more], ["fatal", []]);
    assert.match(msg, /PORT must be a whole number/);
    assert.match(msg, /DATABASE_URL is required .* postgres:/);
    assert.ok(!msg.includes("    at "), msg);
  });

  it("ends with 2 when DATABASE_URL is set and MODE is not, before it touches any database", async () => {
    const { path, remove } = await temporaryDir();
    const env = { DATABASE_URL: "postgres://127.0.0.1:9/none", DATA_DIR: join(path, "data") };
    const commands = [
      ["admin", "create", "--email", "root@example.com", "--generate"],
      ["reconcile"],
      ["migrate", "status"],
      ["demo", "remove"],
    ];
    for (const args of commands) {
      const { code, text } = await run(args, env);
      assert.equal(code, 2, `${args.join(" ")}: ${text}`);
      assert.match(text, /^DATABASE_URL is set, but without MODE .* set MODE=cluster .*MODE=embedded .*\n$/);
    }
    assert.equal(existsSync(env.DATA_DIR), false);
    const meant = await run(["migrate", "status"], { ...env, MODE: "embedded" });
    assert.equal(meant.code, 0, meant.text);
    assert.doesNotMatch(meant.text, /DATABASE_URL/);
    await remove();
  });

  it("ends with 1 and names another port when the port is taken", async () => {
    const directory = await temporaryDir();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const { code, text } = await run(["serve"], {
      PORT: String(port),
      DATA_DIR: directory.path,
      LOG_LEVEL: "error",
    });
    assert.equal(code, 1);
    assert.deepEqual(pluck(linesOf(text), "msg"), [
      `Cannot listen on 127.0.0.1, port ${port}: another process listens there ` +
        `(lsof -i :${port} says which). Stop it, or take another port: PORT=${port + 1} npm start`,
    ]);
    // Nothing was made for a server that could not be: not even the database.
    assert.equal(existsSync(join(directory.path, "pglite")), false);
    server.close();
    await directory.remove();
  });
});
