import assert from "node:assert/strict";
import { aKey, type Answer } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { counting } from "../support/quests/quest-game.ts";
import { ownRules } from "../support/rules/rules-api.ts";
import { pluck } from "../support/pluck.ts";

type Json = Record<string, unknown>;

describe("filters of lists", () => {
  const { api, tenant, rules } = ownRules();
  const get = (path: string): Promise<Answer> => api.get(`/api/v1${path}`, { key: tenant.key });
  const post = async (path: string, body: object = {}): Promise<Answer["body"]> => {
    const answer = await api.post(`/api/v1${path}`, body, { key: tenant.key });
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body;
  };
  const list = async (path: string): Promise<Json[]> => must(await get(path), 200).data;

  describe("of players", () => {
    const names = async (query: string): Promise<string> =>
      (await list(`/players?${query}`)).map(({ externalUserId }) => externalUserId).join("");
    const addPlayers = async (...players: [name: string, more?: object][]) => {
      for (const [externalUserId, more] of players) await post("/players", { externalUserId, ...more });
    };

    it("are by the balance of a currency, which who never had it has at first", async () => {
      await post("/currencies", { key: "coins", name: "Coins", initialBalance: 5 });
      await post("/currencies", { key: "gems", name: "Gems" });
      await addPlayers(["a"], ["b"], ["c"], ["d"]);
      await post("/players/ext:a/balances/coins/grant", { amount: 10 });
      await post("/players/ext:b/balances/coins/spend", { amount: 2 });
      await post("/players/ext:c/balances/gems/grant", { amount: 7 });
      const byCoins = (query: string) => names(`currencyKey=coins&${query}`);
      assert.equal(await byCoins("sort=balance"), "adcb");
      assert.equal(await byCoins("sort=balance&order=asc"), "bcda");
      assert.equal(await byCoins("sort=balance&limit=2&page=2"), "cb");
      assert.equal(await byCoins("minBalance=5"), "dca");
      assert.equal(await byCoins("minBalance=6"), "a");
      assert.equal(await byCoins("maxBalance=4"), "b");
      assert.equal(await byCoins("minBalance=3&maxBalance=5&sort=balance"), "dcb");
      assert.equal(await byCoins("minBalance=6&maxBalance=5"), "");
      assert.equal(await byCoins("minBalance=16"), "");
      assert.equal(await names("currencyKey=gems&minBalance=1"), "c");
      assert.equal(await names("currencyKey=gems&maxBalance=0&sort=balance&order=asc"), "abd");
      const { pagination } = must(await get("/players?currencyKey=coins&minBalance=5&limit=1"), 200);
      assert.deepEqual([pagination.total, pagination.nextCursor !== null], [3, true]);
      for (const query of ["sort=balance", "minBalance=1", "maxBalance=1", "sort=balance&currencyKey=pearls"])
        assertError(await get(`/players?${query}`), 400);
    });

    it("are by when they were last seen, and by several tags at once", async () => {
      await addPlayers(["a", { tags: ["x", "y"] }], ["b", { tags: ["y", "null"] }], ["c", { tags: ["x"] }]);
      for (const [day, name] of ["a", "b"].entries())
        await api.sql`update players set last_seen_at = ${`2025-01-0${day + 1}T00:00:00Z`}::timestamptz
          where project_id = ${tenant.projectId} and external_user_id = ${name}`;
      assert.equal(await names("lastSeenFrom=2025-01-02T00:00:00Z"), "b");
      assert.equal(await names("lastSeenTo=2025-01-02T00:00:00Z"), "a");
      assert.equal(await names("lastSeenFrom=2025-01-01T00:00:00Z&lastSeenTo=2025-01-03T00:00:00Z"), "ba");
      assert.equal(await names("tag=x"), "ca");
      assert.equal(await names("tag=x,y"), "a");
      assert.equal(await names("tag=y&tag=x"), "a");
      assert.equal(await names("tag=x,z"), "");
      assert.equal(await names("tag=null"), "b");
    });
  });

  it("of players are by the value of an attribute", async () => {
    const named = async (query: string): Promise<string[]> =>
      (await list(`/players?${query}`)).map(({ externalUserId }) => String(externalUserId));
    for (const [externalUserId, attributes] of Object.entries({
      eve: { os: { name: "ios" }, age: 30 },
      fay: { os: { name: "android" }, age: "30" },
      gus: { os: "ios" },
    }))
      await post("/players", { externalUserId, attributes });
    assert.deepEqual(await named("attribute=os.name&value=ios"), ["eve"]);
    assert.deepEqual(await named("attribute=age&value=30&order=asc"), ["eve", "fay"]);
    assert.deepEqual(await named("attribute=os&value=ios&search=gus"), ["gus"]);
    assert.deepEqual(await named("attribute=os.name&value=' or 1=1"), []);
    for (const query of ["attribute=os", "value=ios"]) assertError(await get(`/players?${query}`), 400);
  });

  describe("of events", () => {
    const send = (more: Json = {}) => rules.track("ada", more);
    const ids = async (query: string): Promise<unknown[]> =>
      (await list(`/events?${query}`)).map(({ id }) => id);

    it("are by the value of a property, of a player or since a time", async () => {
      const sent: string[] = [];
      for (const properties of [
        { n: 5, to: { country: "SE" } },
        { n: "5", to: { country: "DE" } },
        { n: 5.5, done: true, to: "SE" },
        { n: null, done: "true", list: ["SE"], empty: "" },
      ])
        sent.push((await send({ properties })).eventId);
      await rules.track("bob", { properties: { n: 5 }, timestamp: "2025-01-31T12:00:00Z" });
      const found = async (path: string, value: string): Promise<number[]> =>
        (await ids(`playerId=ext:ada&property=${path}&value=${encodeURIComponent(value)}&order=asc`)).map(
          (id) => sent.indexOf(String(id)) + 1,
        );
      assert.deepEqual(await found("n", "5"), [1, 2]);
      assert.deepEqual(await found("n", "5.0"), [1]);
      assert.deepEqual(await found("n", "5.5"), [3]);
      assert.deepEqual(await found("n", "null"), [4]);
      assert.deepEqual(await found("to.country", "SE"), [1]);
      assert.deepEqual(await found("done", "true"), [3, 4]);
      assert.deepEqual(await found("list", '["SE"]'), []);
      assert.deepEqual(await found("empty", ""), [4]);
      for (const value of ["1e999", "' or 1=1", '"5"', "{}"]) assert.deepEqual(await found("n", value), []);
      assert.equal((await ids("property=n&value=5&from=2025-02-01")).length, 2);
      assert.equal((await ids("property=n&value=5&from=2025-01-31")).length, 3);
      const bobs = await ids("property=n&value=5&externalUserId=bob&to=2025-02-01");
      assert.equal(bobs.length, 1);
      for (const query of ["property=n&value=5", "property=n&from=2025-01-01", "value=5&from=2025-01-01"])
        assertError(await get(`/events?${query}`), 400);
    });

    it("are by a time that a sandbox's clock has left since", async () => {
      const key = await aKey(api, { ...tenant, environment: "test" });
      const clock = `/api/v1/projects/${tenant.projectId}/sandbox/clock`;
      must(await api.put(clock, { advance: "P30D" }, { key }), 200);
      const event = { externalUserId: "ada", eventType: "won" };
      const { eventId } = must(await api.post("/api/v1/events", event, { key }), 200);
      must(await api.put(clock, { reset: true }, { key }), 200);
      const from = new Date(Date.now() + 10 * 86_400_000).toISOString();
      const { data } = must(await api.get(`/api/v1/events?from=${from}`, { key }), 200);
      assert.deepEqual(pluck(data, "id"), [eventId]);
    });

    it("are by a rule that fired for them, by id or key", async () => {
      const { id } = await rules.publish({
        conditions: { all: [{ type: "event_property", path: "n", op: "eq", value: 1 }] },
      });
      await rules.publish({ key: "watched" }, { mode: "SHADOW" });
      const fired = (await send({ properties: { n: 1 } })).eventId;
      const other = (await send({ properties: { n: 2 } })).eventId;
      for (const rule of [id, "lesson"]) assert.deepEqual(await ids(`ruleId=${rule}`), [fired]);
      assert.deepEqual(await ids("ruleId=watched"), []);
      assert.deepEqual(await ids("ruleId=lesson&externalUserId=bob"), []);
      assert.equal((await ids("")).includes(other), true);
      assertError(await get("/events?ruleId=nobody"), 404);
    });
  });

  describe("of what happened to a player", () => {
    /** Whatever there is, the filter is to find what a reader of the whole list would. */
    const holdsOf = async (path: string, causeOf: (line: Json) => Json | undefined) => {
      const all = await list(`${path}?limit=100`);
      const kinds = new Set(all.map((line) => causeOf(line)?.["kind"]));
      kinds.delete(undefined);
      for (const kind of kinds)
        assert.deepEqual(
          await list(`${path}?limit=100&cause=${String(kind)}`),
          all.filter((line) => causeOf(line)?.["kind"] === kind),
        );
      assert.deepEqual(await list(`${path}?cause=MERGE`), []);
      const { id } = must(await rules.get("/lesson"), 200);
      const byRule = all.filter((line) => causeOf(line)?.["ruleId"] === id);
      assert.ok(byRule.length > 0);
      for (const query of [`ruleId=${id}`, "ruleId=lesson", "ruleId=lesson&cause=RULE"])
        assert.deepEqual(await list(`${path}?limit=100&${query}`), byRule);
      assert.deepEqual(await list(`${path}?ruleId=lesson&cause=API`), []);
      const pages: Json[] = [];
      for (let cursor = ""; ;) {
        const { data, pagination } = must(await get(`${path}?limit=1&ruleId=lesson${cursor}`), 200);
        pages.push(...data);
        if (pagination.nextCursor === null) break;
        cursor = `&cursor=${pagination.nextCursor}`;
      }
      assert.deepEqual(pages, byRule);
      const from = String(all.at(-2)!["createdAt"]);
      const after = all.filter(({ createdAt }) => String(createdAt) >= from);
      assert.deepEqual(await list(`${path}?limit=100&from=${from}`), after);
      assert.deepEqual(
        await list(`${path}?limit=100&to=${from}`),
        all.filter((line) => !after.includes(line)),
      );
      for (const query of ["cause=LUCK", "from=yesterday", "to=2030-13-01"])
        assertError(await get(`${path}?${query}`), 400);
      assertError(await get(`${path}?ruleId=nobody`), 404);
      return kinds;
    };

    it("are by cause, rule and time, in the ledger and among the activity", async () => {
      await rules.publish({ actions: [{ type: "grant_xp", amount: 120 }] });
      for (const key of ["one", "two"]) {
        await post("/quests", {
          key,
          name: key,
          steps: [counting("s", "lesson.completed", 3)],
          rewards: { xp: 7 },
        });
        await post(`/quests/${key}/publish`);
      }
      for (let i = 0; i < 3; i++) await rules.track("ada");
      await post("/players/ext:ada/xp", { amount: 5 });
      const ledger = await holdsOf("/players/ext:ada/ledger", ({ cause }) => cause as Json);
      assert.deepEqual([...ledger].toSorted(), ["API", "QUEST", "RULE"]);
      const activity = await holdsOf(
        "/players/ext:ada/activity",
        ({ data }) => (data as Json)["cause"] as Json,
      );
      assert.deepEqual(activity, new Set([...activity, "API", "QUEST", "RULE"]));
      const rows =
        await api.sql`select lines from outbox where project_id = ${tenant.projectId} and lines > 1`;
      assert.ok(rows.length > 0, "lines that share a row");
    });
  });
});
