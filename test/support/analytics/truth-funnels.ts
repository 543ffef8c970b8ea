import assert from "node:assert/strict";
import type { Tenant, TestApp } from "../app/app.ts";
import type { TruthFunnel } from "../data/truth.ts";
import { must } from "../http/client.ts";
import { pluck } from "../pluck.ts";

/** Medians agree to so many seconds. */
const TOLERANCE_S = 0.002;
const OLDEST = "1700-01-01T00:00:00.000Z";

/** Asks for a funnel whose numbers are known, and compares all of them. */
export const agreeOnFunnel = async (
  api: TestApp,
  { key }: Pick<Tenant, "key">,
  { order, tie, windowMs, entryFromIso, entryToIso, steps, breakdown, ...truth }: TruthFunnel,
): Promise<void> => {
  const body = must(
    await api.post(
      "/api/v1/analytics/funnels",
      {
        order,
        window: `${windowMs / 3_600_000}h`,
        from: entryFromIso < OLDEST ? OLDEST : entryFromIso,
        to: entryToIso,
        steps: steps.map(({ eventType, where }) => ({
          eventType,
          ...(where && {
            where: {
              all: Object.entries(where).map(([path, value]) => ({ path, op: "eq", value })),
            },
          }),
        })),
        ...(breakdown && { breakdown: { property: breakdown.property, limit: 100 } }),
      },
      { key },
    ),
    200,
  );
  type Step = { players: number; fromStart: number; medianSecondsFromPrevious: number | null };
  const found: Step[] = body.steps;
  const players = found.map((step) => step.players);
  if (tie === ">") {
    // A funnel whose steps must not be at the same time has fewer players: the difference is what counts.
    assert.ok(players.at(-1)! > truth.players.at(-1)!, players.join());
    return;
  }
  assert.deepEqual(players, truth.players);
  assert.deepEqual(pluck(found, "fromStart"), truth.conversionFromStart);
  for (const [i, median] of (truth.medianSecondsFromPrevious ?? []).entries()) {
    const seconds = found[i]!.medianSecondsFromPrevious;
    if (median === null) assert.equal(seconds, null);
    else
      assert.ok(Math.abs(seconds! - median) <= TOLERANCE_S, `step ${i + 1}: ${seconds} s, not ${median} s`);
  }
  if (!breakdown) return;
  const values = body.breakdown.map((one: { value: string; players: number[] }) => [one.value, one.players]);
  assert.deepEqual(Object.fromEntries(values), breakdown.values);
};
