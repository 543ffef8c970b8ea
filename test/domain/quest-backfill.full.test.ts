import assert from "node:assert/strict";
import fc from "fast-check";
import { questKind } from "../../src/domain/economy/quests/kind.ts";
import { Quest } from "../../src/domain/evaluation/quests/quest.ts";
import { createDraft, moveDraft, publishDraft } from "../../src/domain/economy/definitions/drafts.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { orderQuestBackfill } from "../../src/domain/rules/insight/recount-players.ts";
import { define, findingsOf, memoryDomain, processAll } from "../support/domain/domain.ts";
import { counting } from "../support/quests/quest-game.ts";
import { takeBack } from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

const EVER = { countFrom: "LIFETIME" };

const ASKED: Json & { key: string } = {
  key: "asked",
  name: "Asked",
  stepMode: "PARALLEL",
  steps: [
    counting("three", "ask", 3, { ...EVER, rewards: { xp: 5 } }),
    {
      ...counting("points", "ask", 10, EVER),
      metric: { eventTypes: ["ask"], aggregate: "sum", property: "score" },
    },
  ],
  rewards: { xp: 100 },
};

const events = fc.array(
  fc.record({
    user: fc.constantFrom("ada", "bob", "cyd"),
    type: fc.constantFrom("ask", "other"),
    score: fc.integer({ min: 0, max: 6 }),
  }),
  { minLength: 1, maxLength: 20 },
);

describe("backfills of quests", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const order = (quest: Json & { key: string }): Promise<string> =>
    domain.transact(async (work) => {
      const definition = Quest.parse({ name: quest.key, ...quest });
      await createDraft(work, questKind, { projectId, definition, createdBy: "test" });
      const found = await publishDraft(work, questKind, { projectId, ref: quest.key });
      return orderQuestBackfill(work, { projectId, quest: found, createdBy: "test" });
    });
  const jobs = (onError = (error: unknown): void => assert.fail(String(error))) =>
    new JobSteps({ transact: domain.transact, kinds: JOB_KINDS, onError });
  const finish = async (between?: () => Promise<unknown>): Promise<void> => {
    const steps = jobs();
    while (await steps.step()) await between?.();
  };
  const resultOf = async (id: string): Promise<Json> => {
    const [job] = await domain.sql<{
      status: string;
      result: Json;
    }>`select status, result from project_jobs where id = ${id}`;
    assert.equal(job!.status, "SUCCEEDED");
    return job!.result;
  };
  const track = async (user: string, ...scores: number[]): Promise<string[]> => {
    const ids = await domain.track(
      projectId,
      scores.map((score) => ({ user, type: "ask", properties: { score } })),
    );
    await processAll(domain);
    return ids;
  };
  const has = (user: string) =>
    domain.sql<{ xp: number; state: string | null; percent: number | null }>`
      select p.xp::int as xp, q.state, q.percent from players p
      left join player_quests q on q.project_id = p.project_id and q.player_id = p.id
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;

  it("give what the quest would have given, had it been there before the events, at any moment", () =>
    fc.assert(
      fc.asyncProperty(events, fc.nat(), async (sent, at) => {
        const [before, after] = [await domain.addProject(), await domain.addProject()];
        const send = async (to: string, from: number, until: number) => {
          await domain.track(
            to,
            sent.slice(from, until).map(({ user, type, score }) => ({ user, type, properties: { score } })),
          );
          await processAll(domain);
        };
        const late = at % (sent.length + 1);
        await define(domain, before, "quest", ASKED);
        await send(before, 0, sent.length);
        projectId = after;
        await send(after, 0, late);
        await order(ASKED);
        if (at % 2 === 0) await finish();
        await send(after, late, sent.length);
        await finish();
        const of = (id: string) =>
          domain.sql`select p.external_user_id, p.xp::int, q.state, q.percent, q.completions, s.doc->'c' as c
            from players p
            left join player_quests q on q.project_id = p.project_id and q.player_id = p.id
            left join player_states s on s.project_id = p.project_id and s.player_id = p.id
            where p.project_id = ${id} order by 1`;
        assert.deepEqual(await of(after), await of(before));
        assert.deepEqual(await findingsOf(domain, after), []);
      }),
      { numRuns: cases(40) },
    ));

  it("give once, whatever is done twice, and are finished by whoever comes next", async () => {
    for (const user of ["ada", "bob"]) await track(user, 4, 4, 4);
    await track("cyd", 1);
    await order(ASKED);
    // A step that fails at its end has done nothing.
    const broken: typeof domain.transact = (run, ...more) =>
      domain.transact(
        async (work) => {
          await run(work);
          throw new Error("killed");
        },
        ...more,
      );
    const steps = new JobSteps({ transact: broken, kinds: JOB_KINDS, onError: () => undefined });
    await steps.step().catch(() => undefined);
    assert.deepEqual(await has("ada"), [{ xp: 0, state: null, percent: null }]);
    await finish();
    const first = await Promise.all(["ada", "bob", "cyd"].map(has));
    assert.deepEqual(first.flat(), [
      { xp: 105, state: "CLAIMED", percent: 100 },
      { xp: 105, state: "CLAIMED", percent: 100 },
      { xp: 0, state: "IN_PROGRESS", percent: 21 },
    ]);
    await domain.transact(async (work) => {
      const quest = await publishDraft(work, questKind, { projectId, ref: "asked" });
      await orderQuestBackfill(work, { projectId, quest, createdBy: "test" });
    });
    await finish();
    assert.deepEqual(await Promise.all(["ada", "bob", "cyd"].map(has)), first);
  });

  it("leave who cannot begin: quests begun by hand, full ones, and paused ones", async () => {
    for (const user of ["ada", "bob", "cyd"]) await track(user, 4, 4, 4);
    await order({ ...ASKED, key: "by-hand", start: { mode: "MANUAL" } });
    await order({ ...ASKED, key: "full", maxParticipants: 2 });
    await order({ ...ASKED, key: "paused" });
    await domain.transact((work) => moveDraft(work, questKind, { projectId, ref: "paused", move: "pause" }));
    await finish();
    const rows = await domain.sql`select quest_key as key, count(*)::int as n from player_quests
      where project_id = ${projectId} group by 1`;
    assert.deepEqual(rows, [{ key: "full", n: 2 }]);
  });

  it("say what they have counted, and nothing of what runs no more", async () => {
    await track("ada", 1, 2);
    const id = await order(ASKED);
    await finish();
    const { players, changed, events: read } = await resultOf(id);
    assert.deepEqual([players, changed, read], [1, 1, 2]);
    const ended = await order({ ...ASKED, key: "ended" });
    await domain.transact((work) => moveDraft(work, questKind, { projectId, ref: "ended", move: "end" }));
    await finish();
    assert.equal((await resultOf(ended))["note"], "the quest does not run any more");
  });

  it("are refused for a quest that reads no counter", async () => {
    await assert.rejects(order({ key: "since", steps: [counting("a", "ask", 1)] }), /nothing to count/);
  });

  it("are known to reverts: an event of before leaves the counters", async () => {
    const [first] = await track("ada", 1, 2);
    await order(ASKED);
    await finish();
    await takeBack(domain, projectId, first!);
    const [state] = await domain.sql<{ c: Json }>`
      select s.doc->'c' as c from player_states s where s.project_id = ${projectId}`;
    assert.deepEqual(Object.values(state!.c).toSorted(), [1, 2]);
  });
});
