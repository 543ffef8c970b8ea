import { type Client, must } from "../http/client.ts";
import { localWeek } from "./travel-expected.ts";
import { type Line, PROJECT_ZONE, zoneOf } from "./travel.ts";

/**
 * Quests over the events of travel.ts, and what they come to for each player by plain loops over the file.
 * Nothing here is imported from src.
 */

const step = (key: string, eventType: string, target: number, more: object = {}) => ({
  key,
  name: key,
  kind: "EVENT",
  metric: { eventTypes: [eventType], aggregate: "count" },
  target,
  ...more,
});

/** The steps of the story, one after another. */
const STORY = [
  ["registered", "user_registered", 1],
  ["asked", "question_asked", 1],
  ["comments", "comment_posted", 10],
  ["answers", "answer_posted", 5],
  ["badge", "badge_earned", 1],
] as const;

/** Steps that wait for others. */
const DAG = [
  { key: "ask", eventType: "question_asked", target: 2, after: [] },
  { key: "answer", eventType: "answer_posted", target: 2, after: [] },
  { key: "comment", eventType: "comment_posted", target: 5, after: ["ask", "answer"] },
  { key: "help", eventType: "answer_posted", target: 3, after: ["ask"] },
] as const;

const ANSWERS_A_WEEK = 3;
const COMMENTS_A_TIME = 10;

const weekly = (key: string, timezone: string) => ({
  key,
  repeat: { mode: "WEEKLY", timezone },
  steps: [step("answers", "answer_posted", ANSWERS_A_WEEK)],
});

const QUESTS = [
  { key: "story", steps: STORY.map(([key, type, target]) => step(key, type, target)) },
  {
    key: "dag",
    stepMode: "PARALLEL",
    steps: DAG.map(({ key, eventType, target, after }) => step(key, eventType, target, { dependsOn: after })),
  },
  weekly("weekly", "PLAYER"),
  weekly("weekly-project", "PROJECT"),
  {
    key: "often",
    repeat: { mode: "UNLIMITED" },
    steps: [step("comments", "comment_posted", COMMENTS_A_TIME)],
  },
];

/** Defines and publishes them; each gives a star of its own currency. */
export const defineQuests = async (api: Client, key: string): Promise<void> => {
  for (const quest of QUESTS) {
    const currency = { key: `stars-${quest.key}`, name: "Stars" };
    must(await api.post("/api/v1/currencies", currency, { key }), 201);
    const rewards = { currencies: { [currency.key]: 1 } };
    const { id } = must(
      await api.post("/api/v1/quests", { name: quest.key, rewards, ...quest }, { key }),
      201,
    );
    must(await api.post(`/api/v1/quests/${id}/publish`, {}, { key }), 200);
  }
};

/** A quest that does not repeat: when it began, which steps are done, and when the last of them was. */
type Once = { startedAt: string; done: string[]; completedAt: string | null };

/** Completions of quests that repeat. */
export type ExpectedQuests = { story?: Once; dag?: Once; completions: Record<string, number> };

const story = (lines: readonly Line[]): Once | undefined => {
  let once: Once | undefined;
  let counted = 0;
  for (const { eventType, timestamp } of lines) {
    const [key, type, target] = STORY[once?.done.length ?? 0] ?? [];
    if (type !== eventType) continue;
    once ??= { startedAt: timestamp, done: [], completedAt: null };
    if (++counted < target) continue;
    counted = 0;
    once.done.push(key);
    if (once.done.length === STORY.length) once.completedAt = timestamp;
  }
  return once;
};

const dag = (lines: readonly Line[]): Once | undefined => {
  let once: Once | undefined;
  const counts = new Map<string, number>();
  for (const { eventType, timestamp } of lines) {
    const isOpen = ({ key, after }: (typeof DAG)[number]): boolean =>
      once?.done.includes(key) !== true && after.every((one) => once?.done.includes(one));
    const open = DAG.filter(isOpen).filter((one) => one.eventType === eventType);
    if (open.length === 0) continue;
    once ??= { startedAt: timestamp, done: [], completedAt: null };
    for (const { key } of open) counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const { key, target } of open) if (counts.get(key)! >= target) once.done.push(key);
    if (once.done.length === DAG.length) once.completedAt = timestamp;
  }
  return once;
};

const weeksOf = (lines: readonly Line[], zone: string): number => {
  const weeks = new Map<number, number>();
  for (const { eventType, timestamp } of lines) {
    if (eventType !== "answer_posted") continue;
    const week = localWeek(zone, timestamp);
    weeks.set(week, (weeks.get(week) ?? 0) + 1);
  }
  return [...weeks.values()].filter((answers) => answers >= ANSWERS_A_WEEK).length;
};

const questsOf = (player: string, lines: readonly Line[]): ExpectedQuests => {
  const [told, parallel] = [story(lines), dag(lines)];
  const comments = lines.filter(({ eventType }) => eventType === "comment_posted").length;
  return {
    ...(told ? { story: told } : {}),
    ...(parallel ? { dag: parallel } : {}),
    completions: {
      weekly: weeksOf(lines, zoneOf(player)),
      "weekly-project": weeksOf(lines, PROJECT_ZONE),
      often: Math.floor(comments / COMMENTS_A_TIME),
    },
  };
};

export const expectedQuests = (lines: readonly Line[]): Map<string, ExpectedQuests> => {
  const byPlayer = Map.groupBy(lines, ({ externalUserId }) => externalUserId);
  return new Map([...byPlayer].map(([player, own]) => [player, questsOf(player, own)]));
};
