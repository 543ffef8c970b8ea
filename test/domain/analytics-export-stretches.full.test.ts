import assert from "node:assert/strict";
import fc from "fast-check";
import { planExport, writeExport } from "../../src/domain/analytics/exports/reports.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

const HOUR_MS = 3_600_000;
/** All histories end here. */
const END_MS = Date.UTC(2026, 5, 30);
const YEARS_MS = 3 * 365 * 24 * HOUR_MS;

/** When something happened, in ms before the end: many at once, in one hour, or within years. */
const aTime = fc.oneof(
  fc.constantFrom(0, 1, HOUR_MS, HOUR_MS + 1, 50 * HOUR_MS, YEARS_MS - 1),
  fc.integer({ min: 0, max: HOUR_MS }),
  fc.integer({ min: 0, max: YEARS_MS }),
);

describe("events that are read as a file", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  const domain = madeOnce(() => openDomain(database, () => new Date(END_MS + 24 * HOUR_MS)));

  const aProject = async (times: readonly number[]): Promise<string> => {
    const projectId = await domain.addProject();
    await domain.sql`update tenants t set plan = 'ENTERPRISE', plan_overrides = '{"analyticsHistoryDays": null}'
      from projects p where p.id = ${projectId}::uuid and t.id = p.tenant_id`;
    for (const user of ["ada", "bob", "cid"]) await domain.addPlayer(projectId, user);
    await domain.track(
      projectId,
      times.map((before, n) => ({
        user: ["ada", "bob", "cid"][n % 3]!,
        type: n % 5 === 0 ? "won" : "seen",
        at: new Date(END_MS - before),
        properties: { n, [`p${n % 7}`]: 'a\n"b' },
      })),
    );
    return projectId;
  };

  const fileOf = async (
    projectId: string,
    { flatten = false, hasOneSession, query }: { flatten?: boolean; hasOneSession: boolean; query: object },
  ): Promise<{ rows: number; text: string }> => {
    const { transact } = domain;
    const format = flatten ? ("csv" as const) : ("ndjson" as const);
    const fields = { report: "events" as const, format, flatten, bom: false, raw: false };
    const plan = await transact((work) => planExport(work, { projectId, fields, query: { ...query } }));
    let text = "";
    const rows = await writeExport({ transact, closing: transact, hasOneSession }, plan, {
      put: async (piece) => void (text += piece),
      signal: new AbortController().signal,
    });
    return { rows, text };
  };

  it("are the same, in the same order, whether they are read at once or stretch by stretch", () =>
    fc.assert(
      fc.asyncProperty(fc.array(aTime, { minLength: 1, maxLength: 400 }), async (times) => {
        const projectId = await aProject(times);
        const [from, to] = ["2023-07-01", "2026-06-30"];
        for (const query of [
          { from, to },
          { from, to, "filter[eventType]": "won" },
          { from: to, to },
        ])
          for (const flatten of [false, true]) {
            const whole = await fileOf(projectId, { flatten, hasOneSession: true, query });
            const parts = await fileOf(projectId, { flatten, hasOneSession: false, query });
            assert.deepEqual(parts, whole);
          }
        const { rows } = await fileOf(projectId, { hasOneSession: false, query: { from, to } });
        assert.equal(rows, times.length);
      }),
      { numRuns: cases(15) },
    ));

  it("are none where nothing happened", async () => {
    const projectId = await aProject([HOUR_MS]);
    const query = { from: "2020-01-01", to: "2020-12-31" };
    assert.deepEqual(await fileOf(projectId, { hasOneSession: false, query }), { rows: 0, text: "" });
  });
});
