import type { PlayerEvents } from "./events.ts";
import type { AdventureEvents } from "./adventure-events.ts";
import type { QuestEvents } from "./quest-events.ts";
import type {
  ChatEvents,
  LeaderboardEvents,
  LobbyEvents,
  NoticeEvents,
  ReportEvents,
} from "./realtime-events.ts";

/**
 * Domain events that commits write to the outbox, with the shape of `data`. Webhooks, the live player stream
 * and the rules use this list; `leaderboard.entries_changed` is internal and feeds the rank index.
 */
export type Events = PlayerEvents &
  QuestEvents &
  AdventureEvents &
  LeaderboardEvents &
  LobbyEvents &
  ChatEvents &
  NoticeEvents &
  ReportEvents;

export type EventType = keyof Events;
export type EventData<T extends EventType> = Events[T];
