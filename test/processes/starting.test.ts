import assert from "node:assert/strict";
import { pino } from "pino";
import { checkPostgres } from "../../src/cli/doctor-checks.ts";
import { openPostgres } from "../../src/platform/database.ts";
import { namingDependency, reachPostgres, reachRedis } from "../../src/platform/probe.ts";
import { freePort, laurel, temporaryDir } from "../support/processes/process.ts";
import { type Services, startRedis, startServices } from "../support/processes/services.ts";

describe("a start of a cluster", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let url: string;
  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path, { isEmpty: true });
    const name = `never_made_${process.pid}`;
    const missing = new URL(services.databaseUrl);
    [missing.pathname, missing.password] = [`/${name}`, "hunter2"];
    url = missing.href;
  });
  after(async () => {
    await services.remove();
    await dir.remove();
  });

  it("ends at once without its database, and says how it is made; so do commands and doctor", async () => {
    const database = await openPostgres(url, 1);
    const said =
      /database never_made_\d+ of DATABASE_URL does not exist; make it: createdb -h \S+ .* never_made_\d+/;
    const refused = reachPostgres(url, () => database.ping(), pino({ enabled: false }));
    await assert.rejects(
      refused,
      (error: Error) => said.test(error.message) && !/hunter2/.test(error.message),
    );
    await database.close();
    const [check] = await checkPostgres(url);
    assert.match(`${check?.message}; ${check?.remedy}`, said);
    const command = laurel(["migrate", "status"], { ...services.env, MODE: "cluster", DATABASE_URL: url });
    assert.deepEqual([await command.ended, said.test(command.output())], [1, true], command.output());
  });

  it("ends at once where PostgreSQL or Redis refuse the login, and names the setting", async () => {
    const refused = new URL(services.databaseUrl);
    [refused.username, refused.password] = [`nobody_${process.pid}`, "hunter2"];
    const database = await openPostgres(refused.href, 1);
    const says = (words: RegExp) => (error: Error) =>
      words.test(error.message) && !/hunter2/.test(error.message);
    const log = pino({ enabled: false });
    await assert.rejects(
      reachPostgres(refused.href, () => database.ping(), log),
      says(/^PostgreSQL refuses the user of DATABASE_URL \(.*nobody_\d+.*\); correct/),
    );
    await database.close();
    const redis = await startRedis({ password: "right" });
    const wrong = redis.url.replace("//", "//:hunter2@");
    const ping = () => Promise.reject(new Error("Connection is closed."));
    for (const address of [redis.url, wrong])
      await assert.rejects(
        reachRedis(address, ping, log),
        says(/^Redis refuses the password of REDIS_URL \((NOAUTH|WRONGPASS)/),
      );
    await redis.kill();
  });

  it("names the dependency that fails later in the start", () => {
    const { message } = namingDependency(new Error("Command timed out")) as Error;
    assert.equal(message, "Redis (REDIS_URL) failed during the start: Command timed out");
    for (const other of [
      new Error("a bug"),
      new Error("REDIS_URL is wrong", { cause: new Error("Command timed out") }),
    ])
      assert.equal(namingDependency(other), other);
  });

  it("says why it waits for Redis in words of the network", async () => {
    const lines: string[] = [];
    const log = pino({}, { write: (line) => void lines.push(line) });
    let tries = 0;
    const ping = async (): Promise<void> => {
      if (tries++ === 0) throw new Error("Reached the max retries per request limit (which is 20)");
    };
    const port = await freePort();
    await reachRedis(`redis://127.0.0.1:${port}`, ping, log);
    const { msg, reason } = JSON.parse(lines[0]!) as { msg: string; reason: string };
    assert.deepEqual(
      [msg, reason],
      ["waiting for Redis (REDIS_URL)", `connect ECONNREFUSED 127.0.0.1:${port}`],
    );
  });
});
