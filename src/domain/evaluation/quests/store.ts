import { publish, derive } from "../emit.ts";
import type { EventData } from "../../kernel/events/domain-events.ts";
import type { QuestState } from "../player-state.ts";
import { write } from "../event-steps.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import type { QuestRow } from "./row.ts";

type QuestEvent =
  | "quest.started"
  | "quest.step_completed"
  | "quest.completed"
  | "quest.claimed"
  | "quest.expired"
  | "quest.failed";

/** Fields by which events of quests name their subject. */
export const subjectOf = ({ player }: Turn, quest: Pick<CompiledQuest, "key">, row: QuestRow) => ({
  playerId: player.id,
  externalUserId: player.externalUserId,
  playerQuestId: row.id,
  questKey: quest.key,
  cycleKey: row.cycleKey,
});

/** Publishes a change of a quest: its line in the player's stream is written at the end of the pass. */
export const emitQuest = <T extends QuestEvent>(turn: Turn, type: T, data: EventData<T>): void => {
  publish(turn, type, data, { isSilent: true });
  derive(turn, type, data);
  const isCompleted = type === "quest.completed";
  if (!isCompleted && type !== "quest.started") return;
  const { questKey, playerQuestId } = data as EventData<"quest.started">;
  (turn.root.questNews ??= []).push({ questKey, playerQuestId, isCompleted });
};

/** Ids of the submissions that wait for a review: only a cycle in progress has such. */
const pendingIn = (state: QuestState | undefined): string[] => {
  if (state?.latest.state !== "IN_PROGRESS") return [];
  return Object.values(state.latest.steps).flatMap(({ pending = [] }) => pending);
};

/** Withdraws the submissions that wait in one state of a quest and no more in the next. */
export const withdrawDropped = (
  turn: Turn,
  before: QuestState | undefined,
  now: QuestState | undefined,
): void => {
  const waited = pendingIn(before);
  if (waited.length === 0) return;
  const { player, effects, nowMs: atMs } = turn;
  const settled = new Set([...pendingIn(now), ...effects.submissionDecisions.map(({ id }) => id)]);
  for (const id of waited) {
    if (settled.has(id)) continue;
    const decision = { status: "WITHDRAWN", by: null, note: null } as const;
    write(turn, "submissionDecisions", { id, projectId: player.projectId, ...decision, atMs });
  }
};

/** Stores a player's quest, and remembers what it was when the pass began. */
const storeQuest = (turn: Turn, key: string, state: QuestState): void => {
  const { player, root } = turn;
  withdrawDropped(turn, player.quests.get(key), state);
  const before = (root.quests ??= new Map());
  if (!before.has(key)) before.set(key, player.quests.get(key));
  player.quests.set(key, state);
  player.dirty.quests.add(key);
};

/** Stores the row of the latest cycle. */
export const storeLatest = (turn: Turn, key: string, row: QuestRow): void =>
  storeQuest(turn, key, {
    latest: { ...row, isChanged: true },
    older: turn.player.quests.get(key)?.older ?? [],
  });

/** Stores the latest row, in progress before and after, of which only `percent` and `steps` have changed. */
export const storeProgress = (turn: Turn, key: string, row: QuestRow): void => {
  const { latest, older } = turn.player.quests.get(key)!;
  const isChanged = latest.isChanged === true ? true : "PROGRESS";
  storeQuest(turn, key, { latest: { ...row, isChanged }, older });
};

/** Stores a changed row, whether it is the latest or an older one. */
export const storeRow = (turn: Turn, key: string, row: QuestRow): void => {
  const { latest, older } = turn.player.quests.get(key)!;
  if (row.id === latest.id) return storeLatest(turn, key, row);
  const changed = older.map((one) => (one.id === row.id ? { ...row, isChanged: true as const } : one));
  storeQuest(turn, key, { latest, older: changed });
};

/** Stores the row of a new cycle; the previous one is kept beside it. */
export const storeNext = (turn: Turn, key: string, row: QuestRow): void => {
  const before = turn.player.quests.get(key);
  const older = before ? [...before.older, { ...before.latest, isChanged: true as const }] : [];
  storeQuest(turn, key, { latest: { ...row, isChanged: true }, older });
};

/** Drops what the steps of a row have counted: it is over, or begins anew. */
export const dropCounts = ({ player }: Turn, { id }: QuestRow): void => {
  if (player.doc.q?.[id] === undefined) return;
  delete player.doc.q[id];
  player.dirty.doc = true;
};
