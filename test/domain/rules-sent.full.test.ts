import assert from "node:assert/strict";
import { partitionOf } from "../../src/domain/kernel/ids.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { requeueDueEvents } from "../../src/domain/progression/queue.ts";
import { getEvent, listEvents, type TrackedEvent } from "../../src/domain/tracking/events.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import { define, memoryDomain, processAll, publish, xpOf } from "../support/domain/domain.ts";

const friend = { externalUserId: { $ref: "event.properties.friend" } };
const toFriend = { type: "grant_xp", amount: { $ref: "event.properties.n" }, target: friend };

describe("actions that are sent", () => {
  const { database, domain } = memoryDomain();

  const eventsOf = async (projectId: string, eventType: string): Promise<TrackedEvent[]> =>
    (await domain.transact((work) => listEvents(work, projectId, { limit: 100, eventType: [eventType] })))
      .events;
  const settings = (projectId: string, values: Json) =>
    domain.sql`update projects set settings = ${JSON.stringify(values)}::jsonb, config_version = config_version + 1
      where id = ${projectId} returning id`;

  it("to another player come in that player's turn, as they were worked out for the sender", async () => {
    const projectId = await domain.addProject();
    const ruleId = await publish(domain, projectId, {
      key: "refer",
      actions: [{ type: "grant_xp", amount: 3 }, toFriend],
    });
    await domain.addPlayer(projectId, "bob");
    const [rootId] = await domain.track(projectId, [{ user: "ann", properties: { friend: "bob", n: 20 } }]);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 3, bob: 20 });
    const [grant] = await eventsOf(projectId, "system.grant");
    assert.deepEqual([grant!.externalUserId, grant!.status], ["bob", "PROCESSED"]);
    const { effects } = await domain.transact((work) => getEvent(work, projectId, grant!.id));
    const { cause } = effects[0]!;
    assert.deepEqual(
      [cause.kind, cause.ruleId, cause.ruleKey, cause.actionId, cause.rootEventId, cause.eventId],
      ["RULE", ruleId, "refer", "a2", rootId, grant!.id],
    );
    const keys = await domain.sql<{ key: string }>`
      select idempotency_key as key from ledger_entries where project_id = ${projectId}`;
    assert.ok(keys.some(({ key }) => key === `tgt:${rootId}:${ruleId}:a2`));
  });

  it("to nobody leave the rest of the rule alone; who is unknown is made where settings allow", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "refer", actions: [{ type: "grant_xp", amount: 3 }, toFriend] });
    const send = async (properties: Json) => {
      await domain.track(projectId, [{ user: "ann", properties: { n: 20, ...properties } }]);
      await processAll(domain);
    };
    for (const nobody of [{}, { friend: 7 }, { friend: "" }, { friend: "x".repeat(256) }]) await send(nobody);
    assert.deepEqual(await eventsOf(projectId, "system.grant"), []);
    await send({ friend: "cid" });
    const [refused] = await eventsOf(projectId, "system.grant");
    assert.equal(refused!.status, "REJECTED");
    assert.match(refused!.error!, /does not create unknown targets/);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 15 });
    await settings(projectId, { createUnknownTargets: true });
    await send({ friend: "cid" });
    assert.deepEqual(await xpOf(domain, projectId), { ann: 18, cid: 20 });
  });

  it("to somebody who is unknown yet are refused, also beside the first event of theirs", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "refer", actions: [{ type: "grant_xp", amount: 3 }, toFriend] });
    const partOf = (name: string) => partitionOf(projectId, name);
    const late = ["bea", "cy", "dora"].find((name) => partOf(name) !== partOf("ann"))!;
    await domain.track(projectId, [{ user: "ann", properties: { n: 20, friend: late } }]);
    await processAll(domain, {}, [partOf("ann")]);
    await domain.track(projectId, [{ user: late, properties: {} }]);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 3, [late]: 3 });
    const [refused] = await eventsOf(projectId, "system.grant");
    assert.equal(refused!.status, "REJECTED");
  });

  it("that cannot be done when they come are rejected, and say why", async () => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    const pay = { type: "adjust_currency", currencyKey: "coins", amount: -5, target: friend };
    await publish(domain, projectId, { key: "bill", actions: [pay] });
    await domain.addPlayer(projectId, "bob");
    await domain.track(projectId, [{ user: "ann", properties: { friend: "bob" } }]);
    await processAll(domain);
    const [bill] = await eventsOf(projectId, "system.grant");
    assert.deepEqual([bill!.status, bill!.error], ["REJECTED", "a1: INSUFFICIENT_FUNDS of coins"]);
  });

  it("to a later time wait for it, are no retries, and then are done once", async () => {
    const projectId = await domain.addProject();
    const later = { type: "grant_xp", amount: 7, delaySeconds: 3_600 };
    const ruleId = await publish(domain, projectId, { key: "later", actions: [later] });
    const [rootId] = await domain.track(projectId, [{ user: "ann" }]);
    await processAll(domain);
    await domain.transact(requeueDueEvents);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 0 });
    const [waiting] = await eventsOf(projectId, "system.delayed_action");
    assert.equal(waiting!.status, "PENDING");
    const due = await domain.sql<{ attempts: number; s: string }>`
      select attempts, extract(epoch from due_at - now()) as s from event_due
      where project_id = ${projectId}`;
    assert.deepEqual([due.length, due[0]!.attempts], [1, 0]);
    assert.ok(Math.abs(Number(due[0]!.s) - 3_600) < 60);
    await domain.sql`update event_due set due_at = now() where project_id = ${projectId} returning 1`;
    await domain.transact(requeueDueEvents);
    await domain.transact(requeueDueEvents);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 7 });
    const [done] = await eventsOf(projectId, "system.delayed_action");
    assert.equal(done!.status, "PROCESSED");
    const [entry] = await domain.sql<{ key: string }>`
      select idempotency_key as key from ledger_entries where project_id = ${projectId}`;
    assert.equal(entry!.key, `dly:${rootId}:${ruleId}:a1`);
  });

  it("to a time that was already over when the event came are done at once, by that time", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "late",
      actions: [{ type: "grant_xp", amount: 7, delaySeconds: 60 }],
    });
    const at = new Date(Date.now() - 86_400_000);
    await domain.track(projectId, [{ user: "ann", at }]);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 7 });
    const [event] = await eventsOf(projectId, "system.delayed_action");
    assert.equal(Date.parse(event!.timestamp), at.getTime() + 60_000);
  });

  it("ask for the player's status again, and nothing else", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "later",
      conditions: { all: [{ type: "player_property", field: "xp", op: "eq", value: 0 }] },
      actions: [
        { type: "grant_xp", amount: 1 },
        { type: "grant_xp", amount: 7, delaySeconds: 5 },
      ],
    });
    await domain.track(projectId, [{ user: "ann" }, { user: "bad" }]);
    await processAll(domain);
    await domain.sql`update event_due set due_at = now() where project_id = ${projectId} returning 1`;
    await domain.sql`update players set status = 'BANNED' where project_id = ${projectId} and external_user_id = 'bad'
      returning 1`;
    await domain.transact(requeueDueEvents);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { ann: 8, bad: 1 });
    const byStatus = (await eventsOf(projectId, "system.delayed_action")).map(({ status }) => status);
    assert.deepEqual(byStatus.toSorted(), ["PROCESSED", "REJECTED"]);
  });

  it("between two players end, however they answer one another", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "pingpong",
      reentrant: true,
      triggers: [{ kind: "EVENT", eventTypes: ["goal", "player.xp_granted"] }],
      limits: { perPlayer: [{ max: 1_000_000, window: "LIFETIME" }] },
      actions: Array.from({ length: 20 }, () => ({
        type: "grant_xp",
        amount: 1,
        target: { externalUserId: { $ref: "event.properties.friend", default: "bob" } },
      })),
    });
    await domain.addPlayer(projectId, "bob");
    await domain.track(projectId, [{ user: "ann", properties: { friend: "bob" } }]);
    await processAll(domain);
    const { bob } = await xpOf(domain, projectId);
    assert.ok(bob! >= 20 + 20 * 10 && bob! <= 20 + 20 * 10 * (1 + 3 * 3), `${bob} XP`);
  });

  it("leave every invariant whole", async () => {
    await domain.relay();
    await domain.sql`delete from event_due returning 1`;
    await assertInvariants(database.em);
  });
});
