import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { coded, manual } from "../support/quests/step-documents.ts";
import { madeOnce } from "../support/made.ts";

const HOUR_MS = 3_600_000;

describe("quests, lived by the clock of a sandbox", () => {
  let key: string;
  let projectId: string;
  let beginMs: number;

  const api = madeOnce(startApp);
  beforeEach(async () => {
    beginMs = Date.now();
    const tenant = await aTenant(api);
    ({ projectId } = tenant);
    key = await aKey(api, { ...tenant, environment: "test" });
    must(await post("/players", { externalUserId: "ann" }), 201);
  });

  const hours = (n: number): string => new Date(beginMs + n * HOUR_MS).toISOString();
  const get = async (path: string) => must(await api.get(`/api/v1${path}`, { key }), 200);
  const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
  const goTo = async (n: number): Promise<void> => {
    const path = `/api/v1/projects/${projectId}/sandbox/clock`;
    const { lastAdvance } = must(await api.put(path, { to: hours(n) }, { key }), 200);
    assert.equal(lastAdvance.status, "SUCCEEDED");
  };
  const waiting = async (): Promise<unknown[]> =>
    (await get("/quest-reviews?status=PENDING")).data.map((one: Json) => one["questKey"]);

  /** Publishes a quest for which something of the player's waits for a review. */
  const submitted = async (quest: string, times: object): Promise<void> => {
    const steps = [manual("photo", { requiresApproval: true })];
    must(await post("/quests", { key: quest, name: quest, steps, ...times }), 201);
    must(await post(`/quests/${quest}/publish`), 200);
    must(await post(`/players/ext:ann/quests/${quest}/steps/photo/submit`), 200);
  };
  const endAt = async (quest: string, availableUntil: string): Promise<void> => {
    must(await api.patch(`/api/v1/quests/${quest}`, { availableUntil }, { key }), 200);
    must(await post(`/quests/${quest}/publish`), 200);
  };

  it("withdraw what waits for a review when they are over, unless their end was put off", async () => {
    for (const quest of ["timed", "longer"]) await submitted(quest, { availableUntil: hours(2) });
    await endAt("longer", hours(5));
    await goTo(1);
    assert.deepEqual(await waiting(), ["timed", "longer"]);
    await goTo(4);
    assert.deepEqual(await waiting(), ["longer"]);
    await goTo(7);
    assert.deepEqual(await waiting(), []);
  });

  it("withdraw what waits for a review when their end was moved to an earlier time", async () => {
    await submitted("shorter", { availableUntil: hours(90) });
    await submitted("endless", {});
    await submitted("limited", { timeLimitSeconds: 80 * 3_600, repeat: { mode: "UNLIMITED" } });
    for (const quest of ["shorter", "endless", "limited"]) await endAt(quest, hours(2));
    await goTo(1);
    assert.deepEqual(await waiting(), ["shorter", "endless", "limited"]);
    await goTo(3);
    assert.deepEqual(await waiting(), []);
  });

  it("withdraw it at the moved end although the player has gone on with another step meanwhile", async () => {
    const steps = [manual("photo", { requiresApproval: true }), coded("word", ["sesame"])];
    const quest = { key: "going", name: "going", stepMode: "PARALLEL", steps, availableUntil: hours(90) };
    must(await post("/quests", quest), 201);
    must(await post("/quests/going/publish"), 200);
    must(await post("/players/ext:ann/quests/going/steps/photo/submit"), 200);
    await endAt("going", hours(4));
    await goTo(1);
    must(await post("/players/ext:ann/quests/going/steps/word/submit", { code: "sesame" }), 200);
    await goTo(3);
    assert.deepEqual(await waiting(), ["going"]);
    await goTo(5);
    assert.deepEqual(await waiting(), []);
  });
});
