import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

type Listed = { externalUserId: string };

describe("the list of players", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const identify = async (externalUserId: string, more: object = {}): Promise<string> => {
    const { status, body } = await api.post(
      "/api/v1/players",
      { externalUserId, ...more },
      { key: tenant.key },
    );
    assert.equal(status, 201, JSON.stringify(body));
    return body.id;
  };
  const list = (query = "") => api.get(`/api/v1/players${query}`, { key: tenant.key });
  const names = async (query = ""): Promise<string[]> => {
    const { status, body } = await list(query);
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.pagination.total, body.data.length, query);
    return body.data.map(({ externalUserId }: Listed) => externalUserId);
  };
  const grant = (name: string, amount: number) =>
    api.post(`/api/v1/players/ext:${name}/xp`, { amount }, { key: tenant.key });
  it("sorts by the last change", async () => {
    for (const name of ["a", "b", "c"]) await identify(name);
    const changed = await api.patch("/api/v1/players/ext:a", { displayName: "Ada" }, { key: tenant.key });
    assert.equal(changed.status, 200);
    assert.equal((await names("?sort=updatedAt")).join(""), "acb");
    assert.equal((await names("?sort=updatedAt&order=asc")).join(""), "bca");
  });

  it("filters by external id, status and level, all at once", async () => {
    for (const name of ["a", "b", "c"]) await identify(name);
    await grant("b", 100);
    await grant("c", 250);
    await api.sql`update players set status = 'BANNED'
      where project_id = ${tenant.projectId} and external_user_id = 'b'`;
    assert.deepEqual(await names("?externalUserId=b"), ["b"]);
    assert.deepEqual(await names("?externalUserId=B"), []);
    assert.deepEqual(await names("?status=BANNED"), ["b"]);
    assert.deepEqual(await names("?status=ACTIVE"), ["c", "a"]);
    assert.deepEqual(await names("?minLevel=2"), ["c", "b"]);
    assert.deepEqual(await names("?maxLevel=2"), ["b", "a"]);
    for (const query of ["?minLevel=2&maxLevel=2", "?level=2"]) assert.deepEqual(await names(query), ["b"]);
    assert.deepEqual(await names("?minLevel=2&status=ACTIVE"), ["c"]);
    assert.deepEqual(await names("?minLevel=9007199254740991"), []);
  });

  it("filters by when players were created, from inclusive and to exclusive", async () => {
    for (const [day, name] of ["a", "b", "c"].entries()) {
      await identify(name);
      await api.sql`update players set created_at = ${`2025-01-0${day + 1}T00:00:00Z`}::timestamptz
        where project_id = ${tenant.projectId} and external_user_id = ${name}`;
    }
    assert.deepEqual(await names("?from=2025-01-02T00:00:00Z"), ["c", "b"]);
    assert.deepEqual(await names("?to=2025-01-02T00:00:00Z"), ["a"]);
    assert.deepEqual(await names("?from=2025-01-02T00:00:00%2B00:00&to=2025-01-03T00:00:00Z"), ["b"]);
    assertError(await list("?from=yesterday"), 400);
  });

  it("searches ids and names in any case, and takes no character for a wildcard", async () => {
    await identify("100%", { displayName: "Percy" });
    await identify("100x", { displayName: "a_b" });
    await identify("axb", { displayName: String.raw`back\slash` });
    await identify("ZÜRICH", { displayName: "[a-z]*" });
    const found = async (search: string): Promise<string[]> =>
      (await names(`?search=${encodeURIComponent(search)}`)).toSorted();
    assert.deepEqual(await found("100"), ["100%", "100x"]);
    assert.deepEqual(await found("0%"), ["100%"]);
    assert.deepEqual(await found("%"), ["100%"]);
    assert.deepEqual(await found("a_b"), ["100x"]);
    assert.deepEqual(await found("_"), ["100x"]);
    assert.deepEqual(await found("\\"), ["axb"]);
    assert.deepEqual(await found("k\\s"), ["axb"]);
    assert.deepEqual(await found("PERC"), ["100%"]);
    assert.deepEqual(await found("zürich"), ["ZÜRICH"]);
    assert.deepEqual(await found("[a-z]*"), ["ZÜRICH"]);
    assert.deepEqual(await found("' or 1=1 --"), []);
  });

  it("counts exactly to 100,000, and beyond says that the total is an estimate", async () => {
    const insert = (from: number, to: number) =>
      api.sql`insert into players (project_id, id, external_user_id, created_at, updated_at)
        select ${tenant.projectId}, gen_random_uuid(), 'n' || n, now(), now()
        from generate_series(${from}::int, ${to}::int) n`;
    await insert(1, 100_000);
    const exact = await list("?limit=1");
    assert.partialDeepStrictEqual(exact.body.pagination, { page: 1, total: 100_000, totalPages: 100_000 });
    assert.equal(exact.headers.get("x-total-estimated"), null);
    await insert(100_001, 100_001);
    const estimated = await list("?limit=1");
    assert.equal(estimated.body.pagination.total, 100_000);
    assert.equal(estimated.headers.get("x-total-estimated"), "true");
    assert.equal((await list("?search=n99999")).body.pagination.total, 1);
  });
});
