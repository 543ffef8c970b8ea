import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { waitProcessed } from "../../src/cli/import-client.ts";
import type { Database } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { clientOf } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { assertInvariants, readXp } from "../support/domain/crashing.ts";
import { freePort, laurel, startProcess } from "../support/processes/process.ts";
import { defineWorldcup, expectedXp, hasRealData, WORLDCUP } from "../support/data/worldcup.ts";
import { ownServices } from "../support/processes/services.ts";

const queued = async ({ em }: Database): Promise<number> => {
  const counted = await sql<{ n: number }>`select count(*) as n from event_q`.execute(em.fork().getKysely());
  return counted.rows[0]!.n;
};

describe("a worker that hangs in the middle of its work and wakes later", () => {
  const own = ownServices({ isWanted: hasRealData });

  it("holds nobody up for long, and can commit nothing that another has done meanwhile", async () => {
    const env = { ...own.services.env, PORT: String(await freePort()) };
    const web = await startProcess(["serve"], { ...env, ROLES: "web" });
    const api = clientOf(`http://127.0.0.1:${env.PORT}`);
    const { key } = await aTenant(api);
    await defineWorldcup(api, key);
    const importing = laurel([
      "import",
      WORLDCUP,
      "--key",
      key,
      "--url",
      api.url,
      "--state",
      join(own.path, "s.json"),
      // Nobody processes the events yet.
      "--no-wait",
    ]);
    assert.equal(await importing.ended, 0, importing.output());
    const stop = new AbortController().signal;
    const end = await waitProcessed({
      url: api.url,
      key,
      stop,
      stalledAfterMs: 1_000,
      onProcessing: () => {},
    });
    assert.equal(end, "STALLED");

    const hung = await startProcess(["worker"], env);
    await eventually(async () => (await queued(own.database)) < 25_000, { timeoutMs: 60_000 });
    hung.child.kill("SIGSTOP");
    const left = await queued(own.database);
    assert.ok(left > 0, "the worker was done before it could hang");
    const other = await startProcess(["worker"], env);
    await eventually(async () => (await queued(own.database)) === 0, { timeoutMs: 60_000 });
    hung.child.kill("SIGCONT");
    await delay(2_000);
    await eventually(
      async () => {
        await assertInvariants(own.database.em);
        return true;
      },
      { timeoutMs: 60_000 },
    );
    assert.deepEqual(await readXp(own.database.em), [...(await expectedXp())].toSorted());
    for (const { child } of [web, hung, other]) child.kill("SIGTERM");
    const codes = await Promise.all([web.ended, hung.ended, other.ended]);
    assert.deepEqual(codes, [0, 0, 0], hung.output());
  });
});
