import assert from "node:assert/strict";
import { STEPS_HITS_MAX } from "../../src/domain/rules/lifecycle/publishing.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { emitted } from "../support/app/outbox.ts";
import { madeOnce } from "../support/made.ts";

/** What the rules pass on. */
const TEXT = "y".repeat(15_000);
const USERS = 7;
/** For a machine with much to do. */
const PROCESSED_WITHIN_MS = 30_000;

describe("a rule that takes the steps of event after event", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const toldOf = () =>
    emitted<{ key: string; paused: boolean }>(api.app, tenant.projectId, "event.steps_exhausted");
  const statusOf = (eventId: string): Promise<string> =>
    eventually(
      async (): Promise<string | undefined> => {
        const { status } = must(await api.get(`/api/v1/events/${eventId}`, { key: tenant.key }), 200);
        return status === "PENDING" ? undefined : status;
      },
      { timeoutMs: PROCESSED_WITHIN_MS },
    );
  /** Sends events, and waits until each has come to something. @returns their statuses */
  const send = async (count: number): Promise<string[]> => {
    const events = Array.from({ length: count }, (_, i) => ({
      externalUserId: `u${i % USERS}`,
      eventType: "lesson.completed",
      properties: { text: TEXT },
    }));
    const { results } = must(
      await api.post("/api/v1/events/batch?wait=true", { events }, { key: tenant.key }),
      200,
    );
    return Promise.all(results.map(({ eventId }: { eventId: string }) => statusOf(eventId)));
  };
  const xp = async (): Promise<number> => {
    const users = Array.from({ length: USERS }, (_, i) => `u${i}`);
    const players = await Promise.all(
      users.map((user) => api.get(`/api/v1/players/ext:${user}`, { key: tenant.key })),
    );
    return players.reduce((sum, player) => sum + must(player, 200).xp, 0);
  };

  it("is paused after a hundred of them; no event fails, and other rules fire", async () => {
    const rules = rulesOf(api, tenant);
    await rules.publish({ key: "first", priority: 9 });
    const telling = (n: number) => ({
      type: "emit_event",
      eventType: `told${n}`,
      channels: ["webhook"],
      properties: { text: { $ref: "event.properties.text" } },
    });
    const actionsOf = (count: number) => Array.from({ length: count }, (_, n) => telling(n));
    for (const [i, count] of [20, 19, 19, 19].entries())
      await rules.publish({ key: i === 0 ? "dear" : `other${i}`, priority: 1, actions: actionsOf(count) });
    await rules.publish({ key: "last", priority: -9 });
    for (let sent = 0; sent < STEPS_HITS_MAX + 10; sent += 10) await send(10);
    const shown = async () => must(await rules.get("/dear"), 200);
    await eventually(async () => (await shown()).status === "PAUSED", { timeoutMs: PROCESSED_WITHIN_MS });
    assert.equal((await shown()).pauseReason, "STEPS");
    await eventually(async () => (await toldOf()).some(({ paused }) => paused), {
      timeoutMs: PROCESSED_WITHIN_MS,
    });
    const told = await toldOf();
    assert(told.filter((one) => !one.paused).length >= STEPS_HITS_MAX);
    assert.deepEqual(new Set(told.map(({ key }) => key)), new Set(["dear"]));
    const before = await xp();
    assert(before >= STEPS_HITS_MAX + 10, "the rule before the dear one has fired for each event");
    assert.deepEqual(new Set(await send(20)), new Set(["PROCESSED"]));
    assert.equal(await xp(), before + 2 * 20, "the first and the last fire");
    assert.deepEqual(await toldOf(), told, "the steps suffice again");
  });
});
