import type { EventType, Events, Json } from "../events.ts";
import { boardTopic, chatTopic, lobbiesTopic, lobbyTopic, noticeTopic, type Topics } from "../topics.ts";

type Row = { project_id: string; type: EventType; data: Json };
type Publish = (topics: Topics, projectId: string, data: Json) => void;

/** What rooms are told of an outbox row, by its type. */
const PUBLISH: Partial<Record<EventType, Publish>> = {
  "lobby.changed": (topics, projectId, data) => {
    const { lobbyId, version, occurrences, isListed } = data as Events["lobby.changed"];
    topics.publish(lobbyTopic(projectId, lobbyId), { version, occurrences });
    if (isListed) topics.publish(lobbiesTopic(projectId), lobbyId);
  },
  "chat.message_sent": (topics, projectId, data) => {
    const message = data as Events["chat.message_sent"];
    topics.publish(chatTopic(projectId, message.channelId), [{ name: "chat.message", data: message }]);
  },
  "chat.changed": (topics, projectId, data) => {
    const { channelId, lines } = data as Events["chat.changed"];
    topics.publish(chatTopic(projectId, channelId), lines);
  },
  "leaderboard.period_closed": (topics, projectId, data) => {
    const { leaderboardId } = data as Events["leaderboard.period_closed"];
    topics.publish(boardTopic(projectId, leaderboardId), data);
  },
  "player.notice": (topics, projectId, data) => {
    const { playerId, notice } = data as Events["player.notice"];
    topics.publish(noticeTopic(projectId, playerId), notice);
  },
};

/** Wakes the rooms that show what this row tells; rows of other types are nothing to them. */
export const publishToRooms = (topics: Topics, { project_id, type, data }: Row): void =>
  PUBLISH[type]?.(topics, project_id, data);
