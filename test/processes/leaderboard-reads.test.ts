import assert from "node:assert/strict";
import { ANSWER_AGE_MS } from "../../src/domain/kernel/caches.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, must } from "../support/http/client.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";

const PATH = "/api/v1/leaderboards/race";
const AGE = "x-data-age-ms";
const CHANGES = 25;

describe("reads of a leaderboard in two processes", () => {
  let two: TwoServers;
  let tenant: Tenant;
  let playerId: string;
  before(async () => {
    two = await twoServers();
  });
  beforeEach(async () => {
    const [here] = two.clients;
    tenant = await aTenant(here);
    const board = { key: "race", name: "Race", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await here.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const made = await here.post("/api/v1/players", { externalUserId: "ada" }, { key: tenant.key });
    playerId = must(made, 201).id;
    await score(here, 0);
  });

  const score = async (on: Client, value: number): Promise<void> =>
    void must(await on.post(`${PATH}/scores`, { playerId, score: value }, { key: tenant.key }), 200);
  const name = async (on: Client, version: number): Promise<void> =>
    void must(
      await on.patch(`/api/v1/players/${playerId}`, { displayName: String(version) }, { key: tenant.key }),
      200,
    );
  type Seen = { version: number; sinceMs: number };
  /** What a process shows, and a time at which, or after which, it has read that. */
  const read = async (on: Client, field: "score" | "displayName", query = ""): Promise<Seen> => {
    const askedMs = performance.now();
    const answer = await on.get(`${PATH}/entries${query}`, { key: tenant.key });
    const ageMs = Number(must(answer, 200) && answer.headers.get(AGE));
    assert.ok(ageMs >= 0 && ageMs <= ANSWER_AGE_MS, `${ageMs} ms old`);
    return { version: Number(answer.body.data[0][field]), sinceMs: askedMs - ageMs };
  };

  for (const [field, change] of [
    ["score", score],
    ["displayName", name],
  ] as const)
    it(`show a ${field} at once where it was changed, and elsewhere by the age that they tell`, async () => {
      const [here, there] = two.clients;
      /** When each version was answered to its writer. */
      const doneMs: number[] = [-Infinity];
      const isHeld = ({ version, sinceMs }: Seen): void => {
        const least = doneMs.findLastIndex((ms) => ms < sinceMs);
        assert.ok(version >= least, `${version} was shown when ${least} had been committed`);
      };
      await change(here, 0);
      let isOver = false;
      const watch = async (): Promise<void> => {
        while (!isOver) isHeld(await read(there, field));
      };
      const watching = watch();
      try {
        for (let version = 1; version <= CHANGES; version++) {
          await change(here, version);
          doneMs[version] = performance.now();
          for (const query of ["", `?around=${playerId}`, "?limit=1"])
            assert.equal((await read(here, field, query)).version, version);
        }
      } finally {
        isOver = true;
        await watching;
      }
      await eventually(async () => (await read(there, field)).version === CHANGES);
    });

  it("show XP of a request at once on its boards, though the relay may be in the other process", async () => {
    const [here] = two.clients;
    const { key } = tenant;
    const board = { key: "xp", name: "XP", metric: { source: "XP" } };
    must(await here.post("/api/v1/leaderboards", board, { key }), 201);
    for (let n = 1; n <= CHANGES; n++) {
      must(await here.post(`/api/v1/players/${playerId}/xp`, { amount: 1 }, { key }), 201);
      const page = must(await here.get("/api/v1/leaderboards/xp/entries", { key }), 200);
      assert.equal(page.data[0].score, n);
    }
  });

  it("show a banned player no longer than promised, in the process that did not ban them", async () => {
    const [here, there] = two.clients;
    await read(there, "score");
    const ban = { status: "BANNED" };
    must(await here.post(`/api/v1/players/${playerId}/status`, ban, { key: tenant.key }), 200);
    const bannedMs = performance.now();
    await eventually(async () => {
      const askedMs = performance.now();
      const answer = await there.get(`${PATH}/entries`, { key: tenant.key });
      const isShown = must(answer, 200).data.length > 0;
      assert.ok(!isShown || askedMs - Number(answer.headers.get(AGE)) <= bannedMs, "shown for too long");
      return !isShown;
    });
    const fresh = await there.get(`${PATH}/entries?fresh=true`, { key: tenant.key });
    assert.deepEqual(must(fresh, 200).data, []);
  });
});
