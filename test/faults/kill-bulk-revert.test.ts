import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { holdLedger } from "../support/processes/held-ledger.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { ownWeb } from "../support/processes/own-services.ts";

const PLAYERS = 30;
const EACH = 10;
/** Each in another step. */
const KILLS = 2;

describe("kill -9 of a worker in the midst of a bulk revert", () => {
  const own = ownWeb({ poolMax: 4 });

  const reverted = () => own.numberOf(sql`select count(*) as n from event_results where status = 'REVERTED'`);

  it("takes everything back exactly once", async () => {
    const { api } = own;
    const tenant = await aTenant(api);
    const { key } = tenant;
    await rulesOf(api, tenant).publish({ triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }] });
    const events = Array.from({ length: PLAYERS * EACH }, (_, i) => ({
      externalUserId: `player-${i % PLAYERS}`,
      eventType: "lesson.completed",
    }));
    const worker = own.startWorker();
    const eventIds: string[] = [];
    for (let at = 0; at < events.length; at += 100) {
      const batch = { events: events.slice(at, at + 100) };
      const { results } = must(await api.post("/api/v1/events/batch", batch, { key }), 200);
      for (const { eventId } of results as { eventId: string }[]) eventIds.push(eventId);
    }
    const waiting = () => own.numberOf(sql`select count(*) as n from event_q`);
    await eventually(async () => (await waiting()) === 0, { timeoutMs: 60_000 });

    const body = { filter: { eventIds }, reason: "test" };
    const done: number[] = [];
    const ledger = await holdLedger(own.database);
    let id = "";
    try {
      ({ id } = must(await api.post("/api/v1/events/revert", body, { key }), 201) as { id: string });
      for (let kills = 0; kills < KILLS; kills++) {
        await ledger.someWaiting("WORKER");
        const before = await reverted();
        assert.ok(kills === 0 ? before === 0 : before > done.at(-1)!, `${before} after ${kills} kills`);
        done.push(before);
        await ledger.killAtSave(worker, id);
        await ledger.someWaiting("WORKER");
        assert.equal(await reverted(), before, "nothing of a step that has died");
        await ledger.letOneThrough();
      }
    } finally {
      await ledger.release();
    }
    const statusOf = async () => must(await api.get(`/api/v1/jobs/${id}`, { key }), 200).status;
    await eventually(async () => (await statusOf()) === "SUCCEEDED", { timeoutMs: 120_000 });
    assert.equal(await reverted(), eventIds.length);
    assert.equal(await own.numberOf(sql`select sum(xp) as n from players`), 0);
    const told = await own.numberOf(sql`select count(*) as n from outbox where type = 'event.reverted'`);
    assert.equal(told, eventIds.length);
    await assertInvariants(own.database.em);
  });
});
