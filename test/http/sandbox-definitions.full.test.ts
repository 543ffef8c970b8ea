import assert from "node:assert/strict";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { definitionDocument } from "../support/rules/plan.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

type Shown = { id: string; key: string; version: number; createdAt: string; updatedAt: string };

const none = Object.fromEntries(DEFINITION_KINDS.map(({ plural }) => [plural, 0]));
/** What two projects have in common of one definition. */
const meaning = ({ id: _id, version: _version, createdAt: _at, updatedAt: _until, ...rest }: Shown) => rest;

describe("definitions of a sandbox", () => {
  let live: string;
  let test: string;

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    live = tenant.key;
    test = await aKey(api, { ...tenant, environment: "test" });
  });

  const sync = () =>
    api.post(`/api/v1/projects/${tenant.projectId}/sandbox/sync`, {}, { token: tenant.token });
  const synced = async () => must(await sync(), 200);
  const make = async (path: string, body: unknown, key = live): Promise<Shown> =>
    must(await api.post(`/api/v1/${path}`, body, { key }), 201);
  const get = async (path: string, key: string): Promise<Shown> =>
    must(await api.get(`/api/v1/${path}`, { key }), 200);
  const patch = async (path: string, body: unknown, key = live): Promise<Shown> =>
    must(await api.patch(`/api/v1/${path}`, body, { key }), 200);
  const archive = async (path: string, key = live): Promise<Shown> =>
    must(await api.delete(`/api/v1/${path}`, { key }), 200);

  for (const { kind, plural } of DEFINITION_KINDS.filter(({ hasDrafts }) => !hasDrafts)) {
    it(`become those of the project, new, changed and archived: ${plural}`, async () => {
      const { key } = await make(plural, definitionDocument(kind));
      const own = await make(plural, definitionDocument(kind), test);
      const where = `${plural}/${key}`;
      assert.deepEqual((await synced()).definitions, { ...none, [plural]: 1 });
      const [first, copy] = [await get(where, live), await get(where, test)];
      assert.deepEqual(meaning(copy), meaning(first));
      assert.notEqual(copy.id, first.id);

      await patch(where, { name: "New" });
      assert.deepEqual((await synced()).definitions, { ...none, [plural]: 1 });
      const changed = await get(where, test);
      assert.deepEqual(meaning(changed), meaning(await get(where, live)));
      assert.deepEqual([changed.id, changed.version], [copy.id, 2]);
      assert.deepEqual((await synced()).definitions, none, "there is nothing left to do");

      await archive(where);
      assert.deepEqual((await synced()).definitions, { ...none, [plural]: 1 });
      assert.equal(must(await api.get(`/api/v1/${where}`, { key: test }), 200).status, "ARCHIVED");
      const { definitions, skipped } = await synced();
      assert.deepEqual([definitions, skipped], [none, []]);
      assert.deepEqual(await get(`${plural}/${own.key}`, test), own, "what only the sandbox has stays");
    });
  }

  it("stay archived there, which is said", async () => {
    for (const key of [live, test]) await make("badges", definitionDocument("badge", { key: "first" }), key);
    await archive("badges/first", test);
    const { definitions, skipped } = await synced();
    assert.deepEqual(definitions, none);
    assert.deepEqual(skipped, [{ type: "badge", key: "first", reason: "it is archived in the sandbox" }]);
  });

  it("stay as they are where players of the sandbox hold what they mean, which is said", async () => {
    const streak = (period: string) => definitionDocument("streak", { key: "daily", period });
    await make("streaks", streak("DAY"));
    const { id } = await make("streaks", streak("WEEK"), test);
    const { definitions, skipped } = await synced();
    assert.deepEqual(definitions, none);
    assert.deepEqual(pluck(skipped, "type", "key"), [["streak", "daily"]]);
    assert.match(skipped[0].reason, /period/);
    assert.equal((await get("streaks/daily", test)).id, id);
  });

  const publish = async (path: string, key = live): Promise<Shown> =>
    must(await api.post(`/api/v1/${path}/publish`, {}, { key }), 200);
  const giving = (badgeKey: string) => ({
    key: "giver",
    name: "Giver",
    triggers: [{ kind: "EVENT", eventTypes: ["done"] }],
    actions: [{ type: "update_badge", badgeKey, operation: "AWARD" }],
  });
  const skips = async (): Promise<string[]> =>
    (await synced()).skipped.map(
      ({ type, key, reason }: Record<string, string>) => `${type} ${key}: ${reason}`,
    );

  it("are not archived while rules or adventures of the sandbox alone name them, which is said", async () => {
    await make("badges", definitionDocument("badge", { key: "first" }));
    await make("quests", definitionDocument("quest", { key: "walk" }));
    await publish("quests/walk");
    await synced();
    await make("rules", giving("first"), test);
    await publish("rules/giver", test);
    const journey = definitionDocument("adventure", {
      key: "journey",
      items: [{ questKey: "walk", order: 1 }],
    });
    await make("adventures", journey, test);
    await publish("adventures/journey", test);
    must(await api.post("/api/v1/quests/walk/end", {}, { key: live }), 200);
    const held = "quest walk: adventures have it as an item: journey; end or change them first";
    assert.deepEqual(await skips(), [held]);
    await archive("quests/walk");
    await archive("badges/first");
    const named = "badge first: rules name it: giver; pause or change them first";
    assert.deepEqual(await skips(), [named, held]);
    const statuses = async () => {
      const shown = [await get("badges/first", test), await get("quests/walk", test)];
      return (shown as unknown as { status: string }[]).map(({ status }) => status);
    };
    assert.deepEqual(await statuses(), ["ACTIVE", "ACTIVE"]);
    must(await api.post("/api/v1/adventures/journey/end", {}, { key: test }), 200);
    must(await api.post("/api/v1/rules/giver/pause", {}, { key: test }), 200);
    assert.deepEqual(await skips(), []);
    assert.deepEqual(await statuses(), ["ARCHIVED", "ARCHIVED"]);
  });

  it("that are archived there keep rules out that name them, which is said", async () => {
    for (const key of [live, test]) await make("badges", definitionDocument("badge", { key: "first" }), key);
    await archive("badges/first", test);
    await make("rules", giving("first"));
    await publish("rules/giver");
    assert.deepEqual(await skips(), [
      "badge first: it is archived in the sandbox",
      "rule giver: actions.0.badgeKey: first: the badge is archived",
    ]);
    assertError(await api.get("/api/v1/rules/giver", { key: test }), 404);
  });

  it("that are archived there keep no board from another name, and no quest from where it is", async () => {
    const prize = { from: 1, to: 1, rewards: { currencies: { shells: 5 } } };
    const board = {
      key: "list",
      name: "List",
      metric: { source: "XP" },
      period: { kind: "WEEKLY" },
      prizes: [prize],
    };
    await make("currencies", { key: "shells", name: "Shells" });
    await make("leaderboards", board);
    await make("quests", definitionDocument("quest", { key: "tour" }));
    await publish("quests/tour");
    await synced();
    must(await api.patch("/api/v1/leaderboards/list", { name: "Ranking" }, { key: live }), 200);
    await archive("currencies/shells", test);
    const rewards = { currencies: { shells: 1 } };
    must(await api.patch("/api/v1/quests/tour", { rewards }, { key: live }), 200);
    await publish("quests/tour");
    must(await api.post("/api/v1/quests/tour/pause", {}, { key: live }), 200);
    const { leaderboards, definitions, skipped } = await synced();
    const keys = skipped.map(({ key }: { key: string }) => key).toSorted();
    assert.deepEqual([leaderboards, definitions.quests, keys], [1, 0, ["shells", "tour"]]);
    const there = async (path: string) => must(await api.get(`/api/v1/${path}`, { key: test }), 200);
    assert.equal((await there("leaderboards/list")).name, "Ranking");
    assert.equal((await there("quests/tour")).status, "ACTIVE");
    must(await api.patch("/api/v1/leaderboards/list", { name: "Own" }, { key: test }), 200);
  });

  it("lose edits there that were never published", async () => {
    await make("quests", definitionDocument("quest", { key: "walk" }));
    await publish("quests/walk");
    await synced();
    await patch("quests/walk", { name: "Edited", draftVersion: 1 }, test);
    await patch("quests/walk", { name: "New" });
    await publish("quests/walk");
    await synced();
    const { name, draftVersion } = (await get("quests/walk", test)) as unknown as Record<string, unknown>;
    assert.deepEqual([name, draftVersion], ["New", 3]);
    assertError(
      await api.patch("/api/v1/quests/walk", { name: "Late", draftVersion: 2 }, { key: test }),
      409,
      "VERSION_CONFLICT",
    );
  });

  it("may name one another in any way", async () => {
    await make("badges", definitionDocument("badge", { key: "keen" }));
    await make("currencies", definitionDocument("currency", { key: "coins" }));
    await make(
      "rewards",
      definitionDocument("reward", {
        key: "chest",
        kind: "BUNDLE",
        fulfilment: undefined,
        bundle: { badges: [{ badgeKey: "keen" }], currencies: { coins: 5 } },
      }),
    );
    const milestones = [{ length: 7, rewards: { rewards: [{ rewardKey: "chest" }] } }];
    await make("streaks", definitionDocument("streak", { key: "daily", milestones }));
    assert.deepEqual((await synced()).definitions, {
      ...none,
      badges: 1,
      currencies: 1,
      rewards: 1,
      streaks: 1,
    });
    // Both change at once: one gives what the other has become.
    await patch("badges/keen", { name: "New", points: 5 });
    await patch("streaks/daily", { graceSeconds: 60 });
    assert.deepEqual((await synced()).definitions, { ...none, badges: 1, streaks: 1 });
  });

  it("run there with the next event", async () => {
    await make("streaks", definitionDocument("streak", { key: "daily" }));
    await synced();
    const event = { externalUserId: "ada", eventType: "done" };
    must(await api.post("/api/v1/events?wait=true", event, { key: test }), 200);
    const { data } = must(await api.get("/api/v1/players/ext:ada/streaks", { key: test }), 200);
    assert.equal(data[0].current, 1);
    assertError(await api.get("/api/v1/players/ext:ada/streaks", { key: live }), 404);
  });

  it("take the places of those that are archived at once", async () => {
    for (let i = 0; i < 20; i++)
      await make("currencies", definitionDocument("currency", { key: `coins-${i}` }));
    await synced();
    await archive("currencies/coins-3");
    await make("currencies", definitionDocument("currency", { key: "shells" }));
    assert.deepEqual((await synced()).definitions, { ...none, currencies: 2 });
    await make(
      "rules",
      { ...giving("none"), actions: [{ type: "adjust_currency", currencyKey: "shells", amount: 1 }] },
      test,
    );
    await publish("rules/giver", test);
    await archive("currencies/shells");
    await make("currencies", definitionDocument("currency", { key: "gems" }));
    assertError(await sync(), 409, "DEFINITION_LIMIT");
  });

  it("end with the adventure that has them", async () => {
    await make("quests", definitionDocument("quest", { key: "walk" }));
    await publish("quests/walk");
    const items = [{ questKey: "walk", order: 1 }];
    await make("adventures", definitionDocument("adventure", { key: "journey", items }));
    await publish("adventures/journey");
    await synced();
    for (const path of ["adventures/journey", "quests/walk"])
      must(await api.post(`/api/v1/${path}/end`, {}, { key: live }), 200);
    await archive("quests/walk");
    const { definitions, skipped } = await synced();
    assert.deepEqual([definitions, skipped], [{ ...none, quests: 1, adventures: 1 }, []]);
  });

  it("come as they are: new ones may name what is archived", async () => {
    await make("badges", definitionDocument("badge", { key: "first" }));
    const milestones = [{ length: 7, rewards: { badges: [{ badgeKey: "first" }] } }];
    await make("streaks", definitionDocument("streak", { key: "daily", milestones }));
    await archive("badges/first");
    const { definitions, skipped } = await synced();
    assert.deepEqual([definitions, skipped], [{ ...none, streaks: 1 }, []]);
  });

  it("are never half copied: one too many leaves all as they were", async () => {
    for (let i = 0; i < 11; i++) {
      await make("currencies", definitionDocument("currency"));
      await make("currencies", definitionDocument("currency"), test);
    }
    await make("badges", definitionDocument("badge", { key: "keen" }));
    assertError(await sync(), 409, "DEFINITION_LIMIT");
    assertError(await api.get("/api/v1/badges/keen", { key: test }), 404);
  });
});
