import { sql } from "kysely";
import { settleQuests } from "../../../src/jobs/jobs.ts";
import { must } from "../http/client.ts";
import type { Scenario, Stage } from "./stage.ts";

const publish = async ({ game }: Stage, key: string, more: object = {}): Promise<void> => {
  const step = (name: string, target: number) => ({
    key: name,
    name,
    kind: "EVENT",
    metric: { eventTypes: [`${key}.${name}`], aggregate: "count" },
    target,
    rewards: { xp: 5 },
  });
  await game.make("/quests", { key, name: key, steps: [step("read", 2), step("quiz", 1)], ...more });
  must(await game.post(`/quests/${key}/publish`), 200);
};

/** A quest from its start to its rewards. */
const done: Scenario = {
  tells: ["quest.started", "quest.progress", "quest.step_completed", "quest.completed", "quest.claimed"],
  play: async (stage) => {
    const { game } = stage;
    const id = await game.player("gita");
    await publish(stage, "story", {
      claim: "MANUAL",
      claimWindowSeconds: 86_400,
      timeLimitSeconds: 86_400,
      rewards: { xp: 50 },
    });
    for (const eventType of ["story.read", "story.read", "story.quiz"])
      must(await game.post("/events?wait=true", { externalUserId: "gita", eventType }), 200);
    must(await game.post(`/players/${id}/quests/story/claim`), 200);
  },
};

const over: Scenario = {
  tells: ["quest.expired", "quest.failed"],
  play: async (stage) => {
    const { api, game, change } = stage;
    await publish(stage, "race", { timeLimitSeconds: 3_600 });
    const [late, lost] = [await game.player("hugo"), await game.player("ines")];
    for (const id of [late, lost]) must(await game.post(`/players/${id}/quests/race/start`), 200);
    await change(sql`update player_quests set due_at = now() - interval '1 s',
      expires_at = now() - interval '1 s' where player_id = ${late}`);
    await settleQuests.run(api.app, "*");
    must(await game.post(`/players/${lost}/quests/race/fail`, { reason: "Found cheating" }), 200);
  },
};

const submitted: Scenario = {
  tells: ["quest.approval_requested", "quest.submission_approved", "quest.submission_rejected"],
  play: async ({ game }) => {
    const id = await game.player("nora");
    const step = { key: "photo", name: "photo", kind: "MANUAL", evidence: "URL", requiresApproval: true };
    await game.make("/quests", { key: "tree", name: "tree", steps: [step] });
    must(await game.post("/quests/tree/publish"), 200);
    const evidence = "https://example.com/tree.jpg";
    for (const review of [
      { decision: "REJECT", note: "Too dark" },
      { decision: "APPROVE", note: "Well done" },
    ]) {
      must(await game.post(`/players/${id}/quests/tree/steps/photo/submit`, { evidence }), 200);
      must(await game.post(`/players/${id}/quests/tree/steps/photo/review`, review), 200);
    }
  },
};

/** Scenarios about quests. */
export const QUEST_SCENARIOS: readonly Scenario[] = [done, over, submitted];
