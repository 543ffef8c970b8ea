import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { counting } from "../support/quests/quest-game.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("a season, lived by the clock of a sandbox", () => {
  let key: string;
  let beginMs: number;

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    key = await aKey(api, { ...tenant, environment: "test" });
    beginMs = Date.now();
  });

  const days = (n: number): string => new Date(beginMs + n * DAY_MS).toISOString();
  const get = async (path: string) => must(await api.get(`/api/v1${path}`, { key }), 200);
  const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
  const track = async (eventType: string, externalUserId = "ann") =>
    must(await post("/events?wait=true", { externalUserId, eventType }), 200);
  /** Advances to so many days after the beginning. @returns how often adventures were settled on the way */
  const goTo = async (n: number): Promise<number> => {
    const path = `/api/v1/projects/${tenant.projectId}/sandbox/clock`;
    const { lastAdvance } = must(await api.put(path, { to: days(n) }, { key }), 200);
    assert.equal(lastAdvance.status, "SUCCEEDED");
    return lastAdvance.happened.counts.adventuresSettled ?? 0;
  };
  const season = () => get("/players/ext:ann/adventures/season");
  const unlocked = async () => (await season()).items.map((one: Json) => one["unlocked"]);

  const publishQuests = async (...keys: string[]): Promise<void> => {
    for (const quest of keys) {
      const document = { key: quest, name: quest, steps: [counting("do", `${quest}.done`, 1)] };
      must(await post("/quests", document), 201);
      must(await post(`/quests/${quest}/publish`), 200);
    }
  };
  /** States of the season of which a player was told, oldest first. */
  const told = async (user: string): Promise<string[]> => {
    const { data } = await get(`/players/ext:${user}/activity?types=adventure.updated&limit=100`);
    return data.map((one: Json) => (one["data"] as { adventure: Json }).adventure["state"]).toReversed();
  };

  it("unlocks by time, ends, and can be claimed for a while", async () => {
    await publishQuests("first", "second", "third");
    const adventure = {
      key: "season",
      name: "Season",
      startsAt: days(1),
      endsAt: days(10),
      claimUntil: days(12),
      timezone: "Asia/Tokyo",
      items: [
        { questKey: "first", order: 1, points: 10 },
        { questKey: "second", order: 2, points: 10, unlock: { mode: "DAY_OFFSET", days: 2 } },
        { questKey: "third", order: 3, points: 10, unlock: { mode: "AT_DATE", at: days(6) } },
      ],
      tiers: [
        { tier: 1, points: 10, free: { xp: 1 } },
        { tier: 2, points: 20, free: { xp: 10 } },
      ],
      claim: "MANUAL",
    };
    must(await post("/adventures", adventure), 201);
    assert.equal(must(await post("/adventures/season/publish"), 200).status, "SCHEDULED");
    await track("first.done");
    assert.equal((await season()).state, "LOCKED");
    assert.equal(await goTo(1.5), 0);
    assert.equal((await get("/adventures/season")).status, "ACTIVE");
    assert.equal((await season()).state, "AVAILABLE");
    await track("first.done");
    await track("second.done");
    assert.deepEqual(await unlocked(), [true, false, false]);
    assert.equal(await goTo(4), 1, "the second local midnight after the player joined");
    assert.deepEqual(await unlocked(), [true, true, false]);
    await track("second.done");
    assert.equal(await goTo(7), 1);
    assert.deepEqual(await unlocked(), [true, true, true]);
    assert.equal(await goTo(11), 1);
    const over = await season();
    assert.deepEqual([over.state, over.points], ["EXPIRED", 20]);
    assert.equal((await get("/adventures/season")).status, "ENDED");
    await track("third.done");
    assert.equal((await season()).points, 20);
    must(await post("/players/ext:ann/adventures/season/tiers/1/claim"), 200);
    await goTo(13);
    assertError(await post("/players/ext:ann/adventures/season/tiers/2/claim"), 409, "CLAIM_EXPIRED");
    assert.equal((await get("/players/ext:ann")).xp, 1);
  });

  it("ends for those who are in it when its end is moved to an earlier time", async () => {
    await publishQuests("first", "second");
    const items = ["first", "second"].map((questKey, order) => ({ questKey, order: order + 1 }));
    const times = { startsAt: days(-1), endsAt: days(20), claimUntil: days(30) };
    const adventure = { key: "season", name: "Season", ...times, items, claim: "MANUAL", rewards: { xp: 1 } };
    must(await post("/adventures", adventure), 201);
    must(await post("/adventures/season/publish"), 200);
    for (const user of ["ann", "bob"]) await track("first.done", user);
    await track("second.done", "bob");
    assert.deepEqual([(await told("ann")).at(-1), (await told("bob")).at(-1)], ["IN_PROGRESS", "COMPLETED"]);
    const sooner = { endsAt: days(3), claimUntil: days(5) };
    must(await api.patch("/api/v1/adventures/season", sooner, { key }), 200);
    must(await post("/adventures/season/publish"), 200);
    assert.ok((await goTo(2)) <= 2, "what the new version makes of where they are");
    assert.equal(await goTo(4), 1, "the end of who has not done all");
    assert.deepEqual([(await told("ann")).at(-1), (await told("bob")).at(-1)], ["EXPIRED", "COMPLETED"]);
    assert.equal(await goTo(6), 1, "the end of the claims");
    assert.equal((await told("bob")).at(-1), "EXPIRED");
    assert.equal(await goTo(25), 0, "nothing is due when it was to be before");
  });
});
