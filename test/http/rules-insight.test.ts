import assert from "node:assert/strict";
import { flushRuleStats } from "../../src/jobs/jobs.ts";
import { aKey, type Answer, aTenant } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { ownRules, rulesOf } from "../support/rules/rules-api.ts";
import { pluck } from "../support/pluck.ts";

type Json = Record<string, unknown>;
const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
const when = (path: string, op: string, value: unknown) => ({ type: "event_property", path, op, value });

describe("insight into rules", () => {
  const { api, tenant, rules } = ownRules();
  const trace = (eventId: string): Promise<Answer> =>
    api.get(`/api/v1/events/${eventId}/trace`, { key: tenant.key });
  const stats = async (query = ""): Promise<Answer["body"]> => {
    await flushRuleStats.run(api.app, "*");
    return must(await rules.get(`/lesson/stats?${query}`), 200);
  };

  it("explains sampled events as they were processed, with what they brought about", async () => {
    await rules.settings({ traceSampling: { live: 1 } });
    await rules.publish({
      conditions: {
        all: [when("score", "gte", 60), { any: [when("a", "exists", undefined), when("b", "eq", 1)] }],
      },
      actions: [{ type: "grant_xp", amount: 150 }],
    });
    await rules.publish({
      key: "up",
      triggers: on("player.level_up"),
      actions: [{ type: "update_player", addTags: ["risen"] }],
      limits: { cooldownSeconds: 1 },
    });
    const { eventId } = await rules.track("u1", { properties: { score: 80, b: 1 } });
    const root = must(await trace(eventId), 200);
    assert.deepEqual(
      [root.eventId, root.eventType, root.player.externalUserId],
      [eventId, "lesson.completed", "u1"],
    );
    const [lesson] = root.rules;
    assert.deepEqual([lesson.reason, lesson.conditions.children[1].children[0].pass], ["MATCHED", false]);
    assert.deepEqual(pluck(lesson.effects, "type"), ["player.xp_granted", "player.level_up"]);
    const [derived] = root.derived;
    assert.deepEqual(
      [derived.eventType, derived.rules[0].ruleKey, derived.rules[0].effects[0].type],
      ["player.level_up", "up", "player.updated"],
    );
    const missed = await rules.track("u1", { properties: { score: 5 } });
    const node = must(await trace(missed.eventId), 200).rules[0].conditions;
    assert.deepEqual([node.pass, node.children[1].skipped], [false, true]);
  });

  it("has no trace of what was not sampled, and of another tenant's events not even that", async () => {
    await rules.settings({ traceSampling: { live: 0 } });
    await rules.publish();
    const { eventId } = await rules.track("u1");
    const missing = await trace(eventId);
    assert.equal(missing.status, 404);
    assert.match(missing.body.error.message, /not sampled/);
    const other = await aTenant(api);
    const foreign = await api.get(`/api/v1/events/${eventId}/trace`, { key: other.key });
    assert.deepEqual([foreign.status, foreign.body.error.message], [404, "event not found"]);
    assert.equal((await trace("nonsense")).status, 404);
  });

  it("traces every event of the sandbox, unless told otherwise", async () => {
    const { token, projectId } = tenant;
    const key = await aKey(api, { token, projectId, environment: "test" });
    const sandbox = rulesOf(api, { ...tenant, key });
    await sandbox.publish();
    const { eventId } = await sandbox.track("u1");
    must(await api.get(`/api/v1/events/${eventId}/trace`, { key }), 200);
  });

  it("keeps a trace wherever the loop guard stepped in", async () => {
    await rules.settings({ traceSampling: { live: 0 } });
    const emit = (eventType: string) => ({ type: "emit_event", eventType, channels: ["rules"] });
    // A limit lets it be published; the guard is what ends one event's circle.
    await rules.publish({
      reentrant: true,
      triggers: on("lesson.completed"),
      actions: [emit("lesson.completed")],
      limits: { perPlayer: [{ max: 1_000, window: "DAY" }] },
    });
    const { eventId } = await rules.track("u1");
    const kept = must(await trace(eventId), 200);
    assert.equal(kept.truncated, true);
    assert.deepEqual(kept.guarded, ["lesson.completed"]);
    assert.deepEqual(kept.rules[0].ruleKey, "lesson");
  });

  it("lists firings with their effects, and those of SHADOW with what they would have been", async () => {
    await rules.publish();
    const { eventId } = await rules.track("u1");
    await rules.track("u2");
    must(await rules.act("lesson", "shadow"), 200);
    await rules.track("u1");
    const list = async (query = ""): Promise<Answer["body"]> =>
      must(await rules.get(`/lesson/executions?${query}`), 200);
    const all = (await list()).data;
    assert.deepEqual(
      all.map(({ mode, externalUserId, effects }: Answer["body"]) => [
        mode,
        externalUserId,
        effects[0].type,
        effects[0].data.amount,
      ]),
      [
        ["SHADOW", "u1", "player.xp_granted", 1],
        ["LIVE", "u2", "player.xp_granted", 1],
        ["LIVE", "u1", "player.xp_granted", 1],
      ],
    );
    const users = async (query: string): Promise<string[]> =>
      (await list(query)).data.map((one: Json) => `${String(one["mode"])} ${String(one["externalUserId"])}`);
    assert.deepEqual(await users("playerId=ext:u1"), ["SHADOW u1", "LIVE u1"]);
    assert.deepEqual(await users("shadow=true"), ["SHADOW u1"]);
    assert.deepEqual(await users("mode=LIVE&playerId=ext:u2"), ["LIVE u2"]);
    assert.deepEqual(await users(`eventId=${eventId}`), ["LIVE u1"]);
    assert.deepEqual(await users(`to=${new Date(Date.now() - 60_000).toISOString()}`), []);
    const first = await list("limit=2");
    const second = await list(`limit=2&cursor=${first.pagination.nextCursor}`);
    assert.deepEqual([...first.data, ...second.data], all);
    assert.equal(second.pagination.nextCursor, null);
    assert.equal((await rules.get("/lesson/executions?playerId=ext:nobody")).status, 404);
  });

  it("counts what each rule did, and of sampled events why it did not", async () => {
    await rules.settings({ traceSampling: { live: 1 } });
    await rules.define("currencies", { key: "coins" });
    await rules.publish({
      conditions: { all: [when("score", "gte", 60)] },
      actions: [
        { type: "grant_xp", amount: 10 },
        { type: "adjust_currency", currencyKey: "coins", amount: 3 },
      ],
      limits: { perPlayer: [{ max: 2, window: "DAY" }] },
    });
    for (const score of [80, 5, 90, 95, 7]) await rules.track("u1", { properties: { score } });
    const first = await stats("interval=HOUR");
    const { evaluated, fired, reasons, cost, sampled } = first.total;
    assert.deepEqual([evaluated, fired], [5, 2]);
    assert.deepEqual(reasons, { MATCHED: 2, CONDITIONS_NOT_MET: 2, LIMIT_REACHED: 1 });
    assert.deepEqual(cost, { xp: 20, "currency:coins": 6 });
    assert.deepEqual([sampled.evaluations, sampled.failingConditions], [5, { "conditions.all[0]": 2 }]);
    assert.ok(sampled.p50Micros > 0 && sampled.p50Micros <= sampled.p99Micros);
    assert.ok(first.buckets.length >= 1);
    // What is flushed later adds up with what is there.
    await rules.track("u2", { properties: { score: 100 } });
    const { total } = await stats("interval=TOTAL");
    assert.deepEqual([total.evaluated, total.fired, total.cost.xp, total.reasons.MATCHED], [6, 3, 30, 3]);
    const past = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";
    assert.equal((await stats(past)).total.evaluated, 0);
    assert.equal((await rules.get("/lesson/stats?from=2020-01-01T00:00:00Z")).status, 400);
    assert.equal((await rules.get("/lesson/stats?interval=WEEK")).status, 400);
  });

  it("compares those whom a rule met with those held back, and says how little that tells", async () => {
    await rules.publish({ rollout: { percent: 100, holdoutPercent: 50 } });
    const users = Array.from({ length: 12 }, (_, i) => `u${i}`);
    for (const user of users) await rules.track(user);
    for (const user of users.slice(0, 4)) await rules.track(user, { eventType: "other" });
    const lift = must(await rules.get("/lesson/lift"), 200);
    const { data } = must(await rules.get("/lesson/executions?mode=HOLDOUT&limit=100"), 200);
    assert.equal(lift.holdout.players, data.length);
    assert.equal(lift.treated.players + lift.holdout.players, users.length);
    assert.equal(lift.treated.activeLater, 0);
    const all =
      lift.treated.eventsPerPlayer * lift.treated.players +
      lift.holdout.eventsPerPlayer * lift.holdout.players;
    assert.equal(Math.round(all), 4);
    assert.match(lift.notes.join(" "), /fewer than 100 players/);
    await rules.publish({ key: "plain" });
    const plain = must(await rules.get("/plain/lift"), 200);
    assert.deepEqual([plain.treated.players, plain.activeLaterDifference], [0, null]);
    assert.match(plain.notes[0], /holds nobody back/);
  });

  it("has a catalogue of what there is, with what is not available yet named as that", async () => {
    const catalogue = must(await rules.get("/catalogue"), 200);
    assert.deepEqual([catalogue.conditions.length, catalogue.actions.length], [8, 10]);
    const unavailable = [...catalogue.conditions, ...catalogue.actions].filter(({ available }) => !available);
    assert.deepEqual(unavailable, []);
    const [first] = catalogue.conditions;
    assert.deepEqual([first.type, first.schema.required], ["event_property", ["type", "path", "op"]]);
    const named = JSON.stringify(catalogue).matchAll(/"\$ref":"#\/definitions\/(\w+)"/g);
    for (const [, name] of named) assert.ok(catalogue.definitions[name!], name!);
    // Form builders show no field for tuples.
    assert.doesNotMatch(JSON.stringify(catalogue), /"\$ref":\{|prefixItems/);
    assert.equal(catalogue.operators.length, 22);
    const operands = Object.groupBy(
      catalogue.operators as { name: string; operand: string }[],
      ({ operand }) => operand,
    );
    const ofKind = (kind: string) => operands[kind]!.map(({ name }) => name).toSorted();
    assert.deepEqual(["DURATION", "RANGE", "NONE", "LIST"].map(ofKind), [
      ["older_than", "within_last"],
      ["between"],
      ["exists", "not_exists"],
      ["contains_all", "contains_any", "in", "not_in"],
    ]);
    assert.ok(catalogue.eventTypes.includes("player.badge_earned"));
  });

  it("tells editors what fields are called, are measured in and refer to", async () => {
    const catalogue = must(await rules.get("/catalogue"), 200);
    const fieldsOf = (list: string, type: string) =>
      catalogue[list].find((one: { type: string }) => one.type === type).schema.properties;
    const { currencyKey, delaySeconds, amount } = fieldsOf("actions", "adjust_currency");
    assert.partialDeepStrictEqual(currencyKey, { title: "Currency", "x-ref": "currency", type: "string" });
    assert.partialDeepStrictEqual(delaySeconds, { title: "Delay", unit: "seconds", type: "integer" });
    assert.deepEqual(Object.keys(amount).toSorted(), ["$ref", "title"]);
    assert.equal(fieldsOf("conditions", "progress_state").key["x-ref"], "entity");
    assert.equal(fieldsOf("conditions", "event_property").path["x-ref"], "path");
    assert.equal("x-ref" in fieldsOf("conditions", "event_aggregate").metric, false);
    assert.equal(catalogue.definitions.RuleMetricReading.properties.metric["x-ref"], "metric");
    assert.equal(fieldsOf("triggers", "EVENT").eventTypes["x-ref"], "eventType");
    assert.equal(fieldsOf("triggers", "SCHEDULE").segmentKey["x-ref"], "segment");
    assert.equal(catalogue.limits.properties.cooldownSeconds.unit, "seconds");
    const typesOf = Object.fromEntries(
      catalogue.operators.map(({ name, valueTypes }: { name: string; valueTypes: string[] }) => [
        name,
        valueTypes,
      ]),
    );
    assert.deepEqual([typesOf.contains_any, typesOf.gte], [["list"], ["string", "number"]]);
  });
});
