import type { ChatLine } from "../../kernel/events/chat-views.ts";
import type { EventType, Events } from "../../kernel/events/domain-events.ts";
import type { Json } from "../../kernel/events/events.ts";
import {
  boardTopic,
  chatTopic,
  lobbiesTopic,
  lobbyTopic,
  noticeTopic,
  type Topics,
} from "../../kernel/events/topics.ts";

type Row = { project_id: string; type: EventType; data: Json };
type Publish = (topics: Topics, projectId: string, data: Json) => void;

/** How to publish an outbox row to rooms, by its type. */
const PUBLISH: Partial<Record<EventType, Publish>> = {
  "lobby.changed": (topics, projectId, data) => {
    const { lobbyId, version, occurrences, isListed } = data as Events["lobby.changed"];
    topics.publish(lobbyTopic(projectId, lobbyId), { version, occurrences });
    if (isListed) topics.publish(lobbiesTopic(projectId), lobbyId);
  },
  "leaderboard.period_closed": (topics, projectId, data) => {
    const { leaderboardId } = data as Events["leaderboard.period_closed"];
    topics.publish(boardTopic(projectId, leaderboardId), data);
  },
  "leaderboard.changed": (topics, projectId, data) => {
    const { leaderboardId } = data as Events["leaderboard.changed"];
    topics.publish(boardTopic(projectId, leaderboardId), null);
  },
  "player.notice": (topics, projectId, data) => {
    const { playerId, notice } = data as Events["player.notice"];
    topics.publish(noticeTopic(projectId, playerId), notice);
  },
};

type Said = { channelId: string; lines: readonly ChatLine[] };

/** Returns a row's line for the readers of a channel. The data of other rows is not touched, nor parsed. */
const saidIn = (row: Row): Said | undefined => {
  if (row.type === "chat.changed") return row.data as Events["chat.changed"];
  if (row.type !== "chat.message_sent") return undefined;
  const message = row.data as Events["chat.message_sent"];
  return { channelId: message.channelId, lines: [{ name: "chat.message", data: message }] };
};

/**
 * Notifies the rooms that show these rows; rows of other types are ignored. All lines of a channel are
 * published at once: there may be many, and each message costs every listening process.
 */
export const publishToRooms = (topics: Topics, rows: readonly Row[]): void => {
  const channels = new Map<string, ChatLine[]>();
  for (const row of rows) {
    const said = saidIn(row);
    if (!said) {
      PUBLISH[row.type]?.(topics, row.project_id, row.data);
      continue;
    }
    const topic = chatTopic(row.project_id, said.channelId);
    const lines = channels.get(topic);
    if (lines) lines.push(...said.lines);
    else channels.set(topic, [...said.lines]);
  }
  for (const [topic, lines] of channels) topics.publish(topic, lines);
};
