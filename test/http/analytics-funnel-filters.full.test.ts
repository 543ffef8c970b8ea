import assert from "node:assert/strict";
import type { Answer } from "../support/app/app.ts";
import { type Happening, historiesAskedBy, playersAt, stepsOf } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";

const DAY = "2024-03-04T";
const YEAR = "from=2024-01-01&to=2024-12-31";
const range = { from: "2024-01-01", to: "2024-12-31" };

const RETURNS = "startEvent=joined&returnEvent=joined&breakdown=team";

describe("filters, exclusions and breakdowns of funnels", () => {
  const { api, tenant, given, get, post } = historiesAskedBy("funnels");
  const ask = async (body: object): Promise<Answer["body"]> => must(await post({ ...range, ...body }), 200);
  it("filter by properties as metrics do, or in short", async () => {
    const properties = { n: 5, text: "Größe", list: ["a", 2, null], deep: { er: { x: true } }, nil: null };
    await given(["ada", "joined", `${DAY}10:00:00Z`], ["ada", "scored", `${DAY}10:00:01Z`, properties]);
    const matches = async (where: unknown): Promise<boolean> =>
      playersAt(await ask({ steps: [{ eventType: "joined" }, { eventType: "scored", where }] }))[1] === 1;
    const leaf = (path: string, op: string, value?: unknown) => ({
      path,
      op,
      ...(value === undefined ? {} : { value }),
    });
    const right = [
      leaf("n", "eq", 5),
      leaf("n", "neq", "5"),
      leaf("n", "gte", 5),
      leaf("n", "lt", 5.5),
      leaf("n", "between", [1, 5]),
      leaf("n", "in", [4, 5]),
      leaf("n", "not_in", ["5"]),
      leaf("missing", "neq", 1),
      leaf("missing", "not_exists"),
      leaf("missing", "not_contains", "a"),
      leaf("nil", "exists"),
      leaf("nil", "eq", null),
      leaf("nil", "in", [null]),
      leaf("text", "contains", "röß"),
      leaf("text", "starts_with", "Gr"),
      leaf("text", "ends_with", "ße"),
      leaf("text", "gt", "Gro"),
      leaf("text", "between", ["G", "H"]),
      leaf("list", "contains", 2),
      leaf("list", "contains_any", ["x", "a"]),
      leaf("list", "contains_all", [null, 2]),
      leaf("list.1", "eq", 2),
      leaf("deep.er.x", "eq", true),
      { any: [leaf("n", "eq", 1), { all: [leaf("n", "eq", 5), { none: [leaf("n", "lt", 0)] }] }] },
      { all: [] },
      { "properties.n": { gte: 1, lt: 6 }, "properties.text": "Größe" },
      { "properties.n": [4, 5] },
      { "properties.missing": { exists: false } },
    ];
    for (const where of right) assert.equal(await matches(where), true, JSON.stringify(where));
    const wrong = [
      leaf("n", "eq", "5"),
      leaf("n", "gt", 5),
      leaf("n", "gt", "4"),
      leaf("text", "gt", 1),
      leaf("text", "contains", 1),
      leaf("missing", "eq", null),
      leaf("missing", "lt", 1),
      leaf("deep", "eq", "x"),
      leaf("list", "in", ["a"]),
      leaf("list", "contains", "x"),
      leaf("list", "contains_all", ["a", "x"]),
      leaf("list.length", "exists"),
      leaf("text", "ends_with", "%"),
      leaf("text", "contains", "') or 1=1 --"),
      { none: [{ all: [] }] },
      { "properties.n": { exists: false } },
    ];
    for (const where of wrong) assert.equal(await matches(where), false, JSON.stringify(where));
    for (const op of ["glob", "before", "within_last"]) {
      const value = { glob: "a*", before: "2024-01-01", within_last: "P7D" }[op];
      const body = {
        ...range,
        steps: [{ eventType: "a" }, { eventType: "b", where: leaf("text", op, value) }],
      };
      const answer = await api.post("/api/v1/analytics/funnels", body, { key: tenant.key });
      assertError(answer, 400);
    }
  });

  it("divide players by a property of the first step, and put the rest into one", async () => {
    await given(
      ...["a", "a", "a", "b", "b", "c", 7, true].map((team, i): Happening => [
        `p${i}`,
        "joined",
        `${DAY}10:00:0${i}Z`,
        { team },
      ]),
      ["p8", "joined", `${DAY}10:00:00Z`],
      ["p9", "joined", `${DAY}10:00:00Z`, { team: ["list"] }],
      ["p0", "asked", `${DAY}11:00:00Z`],
      ["p5", "asked", `${DAY}11:00:00Z`],
    );
    const { body } = await get(`steps=joined,asked&breakdown=team&limit=3&${YEAR}`);
    assert.deepEqual(body.breakdown, [
      { value: "a", players: [3, 1] },
      { value: "(none)", players: [2, 0] },
      { value: "b", players: [2, 0] },
      { value: "(other)", players: [3, 1] },
    ]);
    const posted = await ask({
      steps: stepsOf("joined", "asked"),
      breakdown: { property: "team", limit: 100 },
    });
    assert.equal(posted.breakdown.length, 6);
  });

  it("with a breakdown take a bounded size of values of one player", async () => {
    const times = Array.from({ length: 11_000 }, (_, i) =>
      new Date(Date.parse(`${DAY}10:00:00Z`) + i).toISOString(),
    );
    const value = "\u0001".repeat(100);
    await given(...times.map((time): Happening => ["ada", "joined", time, { team: value }]));
    const asked = (query: string): Promise<Answer> => get(`steps=joined,asked&${query}&${YEAR}`);
    must(await asked("breakdown=none"), 200);
    const refused = await asked("breakdown=team");
    assertError(refused, 400);
    assert.match(refused.body.error.message, /too many values of the breakdown/);
    const retention = (entry: string) =>
      api.get(`/api/v1/analytics/retention?${RETURNS}&entry=${entry}&${YEAR}`, {
        key: tenant.key,
      });
    assertError(await retention("recurring"), 400);
    // Of the first start alone it is one value.
    must(await retention("first_time"), 200);
  });
});
