import type { QuestOutline } from "../../evaluation/quests/show.ts";
import type { EventData, EventType } from "../../kernel/events/domain-events.ts";
import type { Json } from "../../kernel/events/events.ts";

type Row = { type: EventType; data: Json };
/** An event for webhooks, which may have another type than the row that tells of it. */
type Sent = { type: string; data: Json };

/** Returns the event `quest.progress` that a line of the player's stream tells of. */
const progressOf = (line: EventData<"quest.updated">, progress: NonNullable<typeof line.progress>): Sent => {
  const { playerId, externalUserId } = line;
  const { id: playerQuestId, questKey, cycleKey, percent, steps } = line.quest as QuestOutline;
  const { previousPercent, justCompleted } = progress;
  const data: EventData<"quest.progress"> = {
    playerId,
    externalUserId,
    playerQuestId: playerQuestId!,
    questKey,
    cycleKey,
    percent,
    previousPercent,
    steps: steps.map(({ stepKey, value, target, state }) => ({
      stepKey,
      value,
      target,
      done: state === "DONE",
      justCompleted: justCompleted.includes(stepKey),
    })),
  };
  return { type: "quest.progress", data };
};

/** Returns the type of event that a row of a type may tell webhooks of. */
export const maySendAs = (type: EventType): string => (type === "quest.updated" ? "quest.progress" : type);

/** Returns the event that webhooks receive of a row of the outbox: mostly the row's own. */
export const sentAs = ({ type, data }: Row): Sent => {
  if (type !== "quest.updated") return { type, data };
  const line = data as EventData<"quest.updated">;
  return line.progress ? progressOf(line, line.progress) : { type, data };
};
