import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { callsBy } from "../support/app/game.ts";
import { pluck } from "../support/pluck.ts";

const property = (field: string, op: string, value?: unknown) => ({
  type: "player_property",
  field,
  op,
  ...(value === undefined ? {} : { value }),
});

describe("segments", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const { get, post, remove } = callsBy(api, tenant);
  const make = async (key: string, ...all: unknown[]): Promise<Answer["body"]> =>
    must(await post("/segments", { key, name: key, kind: "DYNAMIC", definition: { all } }), 201);
  const player = async (externalUserId: string, more: object = {}): Promise<string> =>
    (await post("/players", { externalUserId, ...more })).body.id;
  const keysOf = async (ref: string): Promise<string[]> =>
    (await get(`/players/${ref}/segments`)).body.data.map((one: { segmentKey: string }) => one.segmentKey);
  const membersOf = async (key: string): Promise<string[]> =>
    (await get(`/segments/${key}/members?limit=100`)).body.data.map(
      (one: { externalUserId: string }) => one.externalUserId,
    );
  const told = (type: string) =>
    api.app.transact(async ({ db }) => {
      const found = await sql<{ user: string; segment: string }>`
        select data->>'externalUserId' as user, data->>'segmentKey' as segment from outbox
        where project_id = ${tenant.projectId} and type = ${type} order by id`.execute(db);
      return found.rows.map(({ user, segment }) => `${user} ${segment}`);
    });

  it("take in who is there when they are made, by a job, and follow events from then on", async () => {
    for (const name of ["ada", "bob", "cleo"]) await player(name, { country: name === "bob" ? "DE" : "IT" });
    const made = await make("italians", property("country", "eq", "IT"));
    assert.equal(made.memberCount, 0);
    await eventuallyHolds(async () => assert.deepEqual(await membersOf("italians"), ["ada", "cleo"]));
    const { data } = (await get("/jobs?kind=SEGMENT_REFRESH")).body;
    assert.deepEqual([data.length, data[0].status], [1, "SUCCEEDED"]);
    const result = await get(`/jobs/${data[0].id}/result`);
    assert.deepEqual(result.body, { evaluated: 3, moved: 2 });
    assert.equal((await get("/segments/italians")).body.memberCount, 2);
    assert.equal((await get("/segments")).body.data[0].memberCount, 2);
    assert.deepEqual(await told("player.segment_entered"), ["ada italians", "cleo italians"]);

    await api.patch("/api/v1/players/ext:ada", { country: "FR" }, { key: tenant.key });
    await player("dino", { country: "IT" });
    assert.deepEqual(await membersOf("italians"), ["cleo", "dino"]);
    assert.deepEqual(await told("player.segment_left"), ["ada italians"]);
  });

  it("set off rules when a player enters, in the same transaction as what brought them in", async () => {
    const metric = { eventTypes: ["won"], aggregate: "count" };
    await make("winners", { type: "event_aggregate", metric, op: "gte", value: 2 });
    const rule = {
      key: "welcome",
      name: "Welcome",
      triggers: [{ kind: "EVENT", eventTypes: ["player.segment_entered"] }],
      conditions: {
        all: [{ type: "event_property", path: "segmentKey", op: "eq", value: "winners" }],
      },
      actions: [{ type: "grant_xp", amount: 50 }],
    };
    must(await post("/rules", rule), 201);
    must(await post("/rules/welcome/publish", {}), 200);
    const win = () => post("/events?wait=true", { externalUserId: "ada", eventType: "won" });
    const first = await win();
    assert.deepEqual(pluck(first.body.effects, "type"), ["player.created"]);
    const second = await win();
    assert.deepEqual(pluck(second.body.effects, "type"), ["player.segment_entered", "player.xp_granted"]);
    assert.deepEqual(await keysOf("ext:ada"), ["winners"]);
    assert.equal((await get("/players/ext:ada")).body.xp, 50);
  });

  it("change for everybody with their definition, and not with a wrong version", async () => {
    await player("ada", { attributes: { plan: "gold" } });
    await player("bob", { attributes: { plan: "free" } });
    const { id } = await make("paying", property("attributes.plan", "eq", "gold"));
    await eventuallyHolds(async () => assert.deepEqual(await membersOf("paying"), ["ada"]));
    const definition = { all: [property("attributes.plan", "eq", "free")] };
    const patch = (body: object) => api.patch(`/api/v1/segments/${id}`, body, { key: tenant.key });
    assertError(await patch({ definition, version: 7 }), 409, "VERSION_CONFLICT");
    must(await patch({ definition, version: 1 }), 200);
    await eventuallyHolds(async () => assert.deepEqual(await membersOf("paying"), ["bob"]));
    assertError(await patch({ kind: "STATIC", definition: null }), 400);
    assertError(await patch({ definition: null }), 400);
  });

  it("that time changes are swept without an event", async () => {
    const { id } = await make("idle", property("lastSeenAt", "older_than", "P7D"));
    await post("/events?wait=true", { externalUserId: "ada", eventType: "seen" });
    await eventually(
      async () => (await get("/jobs?kind=SEGMENT_REFRESH")).body.data[0]?.status === "SUCCEEDED",
    );
    assert.deepEqual(await membersOf(id), []);
    await api.app.transact(async ({ db }) => {
      await sql`update players set last_seen_at = now() - interval '8 days'
        where project_id = ${tenant.projectId}`.execute(db);
      await sql`update segment_sweeps set due_at = now() - interval '1 second'
        where project_id = ${tenant.projectId}`.execute(db);
    });
    await eventuallyHolds(async () => assert.deepEqual(await membersOf(id), ["ada"]));
    const due = await api.sql<{ minutes: number }>`
      select (extract(epoch from due_at - now()) / 60)::float8 as minutes from segment_sweeps
      where project_id = ${tenant.projectId}`;
    assert.ok(Math.round(due[0]!.minutes) === 15, "the next one is in 15 minutes");
    await post("/events?wait=true", { externalUserId: "ada", eventType: "seen" });
    assert.deepEqual(await membersOf(id), []);
  });

  it("that read one another in a ring are refused", async () => {
    const reads = (key: string) => ({ type: "segment", segmentKeys: [key] });
    await make("a", property("level", "gte", 2));
    await make("b", reads("a"));
    const answer = await api.patch(
      "/api/v1/segments/a",
      { definition: { any: [reads("b")] } },
      { key: tenant.key },
    );
    assertError(answer, 409, "SEGMENT_CYCLE");
    const itself = { key: "self", name: "Self", kind: "DYNAMIC", definition: { all: [reads("self")] } };
    assertError(await post("/segments", itself), 409, "SEGMENT_CYCLE");
  });

  describe("with members by hand", () => {
    beforeEach(async () => {
      must(await post("/segments", { key: "vip", name: "VIP" }), 201);
    });

    it("are static unless told otherwise, take players in and out, and count them once", async () => {
      const [ada, bob] = [await player("ada"), await player("bob")];
      const stranger = randomUUID();
      const added = await post("/segments/vip/members", {
        playerIds: [ada, "ext:ada", "ext:bob", stranger, "ext:nobody", "no-id"],
      });
      assert.equal(added.status, 200);
      const unknown = [stranger, "ext:nobody", "no-id"];
      const found = async (ref: string) =>
        (await get(`/segments/vip/members?playerId=${ref}`)).body.data?.map(
          (one: { playerId: string }) => one.playerId,
        );
      assert.deepEqual([await found("ext:ada"), await found(bob)], [[ada], [bob]]);
      assert.deepEqual(await found(await player("cid")), []);
      assert.equal((await get("/segments/vip/members?playerId=ext:nobody")).status, 404);
      assert.deepEqual(added.body, { changed: 2, unchanged: 0, unknown });
      const again = await post("/segments/vip/members", { playerIds: [ada] });
      assert.deepEqual(again.body, { changed: 0, unchanged: 1, unknown: [] });
      const { body } = await get("/segments/vip/members");
      assert.equal(body.pagination.total, 2);
      assert.deepEqual(pluck(body.data, "playerId"), [ada, bob]);
      const removed = await remove("/segments/vip/members", { playerIds: [ada] });
      assert.deepEqual(removed.body, { changed: 1, unchanged: 0, unknown: [] });
      assert.deepEqual(await membersOf("vip"), ["bob"]);
      assert.deepEqual(await told("player.segment_entered"), ["ada vip", "bob vip"]);
      assert.deepEqual(await told("player.segment_left"), ["ada vip"]);
    });

    it("bring other segments with them", async () => {
      await make("guests", { type: "segment", segmentKeys: ["vip"] });
      const ada = await player("ada");
      await post("/segments/vip/members", { playerIds: [ada] });
      assert.deepEqual(await keysOf(ada), ["guests", "vip"]);
      await remove("/segments/vip/members", { playerIds: [ada] });
      assert.deepEqual(await keysOf(ada), []);
    });

    it("refuse what is no list of players, and segments that decide for themselves", async () => {
      for (const playerIds of [undefined, [], "ada", [1], Array.from({ length: 1_001 }, () => "ext:a")]) {
        assertError(await post("/segments/vip/members", { playerIds }), 400);
        assertError(await remove("/segments/vip/members", { playerIds }), 400);
      }
      await make("all");
      assertError(await post("/segments/all/members", { playerIds: ["ext:a"] }), 409, "INVALID_STATE");
      await remove("/segments/vip", undefined);
      assertError(await post("/segments/vip/members", { playerIds: ["ext:a"] }), 409, "INVALID_STATE");
    });
  });

  describe("in preview", () => {
    const preview = (definition: object, key = tenant.key) => post("/segments/preview", { definition }, key);

    it("tell how many would be in, with a sample, and write nothing", async () => {
      for (let i = 0; i < 22; i++) await player(`p${i}`, { country: i < 21 ? "IT" : "DE" });
      const { status, body } = await preview({ all: [property("country", "eq", "IT")] });
      assert.equal(status, 200);
      assert.deepEqual(
        [body.count, body.evaluated, body.isComplete, body.sample.length, body.warnings],
        [21, 22, true, 20, []],
      );
      assert.equal(body.sample[0].externalUserId, "p20", "the newest first");
      assert.deepEqual((await get("/segments")).body.data, []);
      assert.deepEqual(await told("player.segment_entered"), []);
    });

    it("say what is not counted yet and which segments there are not", async () => {
      const metric = { eventTypes: ["won"], aggregate: "count" };
      const { body } = await preview({
        all: [
          { type: "event_aggregate", metric, op: "gte", value: 1 },
          { type: "segment", segmentKeys: ["gone"] },
        ],
      });
      assert.deepEqual(body.warnings, [
        "count(won) is not counted yet: it begins when this is saved",
        "there is no segment gone",
      ]);
    });
  });
});
