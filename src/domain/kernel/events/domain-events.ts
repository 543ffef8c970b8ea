import type {
  ChatLine,
  ChatMessage,
  LobbyCloseReason,
  LobbyMember,
  LobbyResult,
  LobbyStatus,
  LobbyVisibility,
  Occurrence,
  SanctionKind,
} from "./chat-views.ts";
import type { Cause, EntryChange, Json, PlayerEvents, PlayerRef } from "./events.ts";

type Subject = PlayerRef & { adventureKey: string };

/** Events about players' adventures, with the shape of `data`. Times are ISO 8601. */
type AdventureEvents = {
  "adventure.started": Subject & {
    adventureId: string;
    season: string | null;
    endsAt: string;
    startedAt: string;
  };
  "adventure.quest_unlocked": Subject & { questKey: string };
  "adventure.tier_reached": Subject & { tier: number; points: number; premium: boolean };
  "adventure.completed": Subject & {
    adventureId: string;
    season: string | null;
    points: number;
    questsCompleted: number;
    rewards: Json;
    claimRequired: boolean;
    completedAt: string;
  };
  /** `tier`, `track`: null for the rewards of the whole adventure. */
  "adventure.claimed": Subject & { tier: number | null; track: "FREE" | "PREMIUM" | null; rewards: Json };
  /** A line of the player's stream: the adventure, and the greatest change of the pass. */
  "adventure.updated": PlayerRef & { adventure: Json; change: string };
};

/** A player's quest in one cycle. */
type QuestSubject = PlayerRef & { playerQuestId: string; questKey: string; cycleKey: string };

/** A submission that somebody has decided about. */
type Decided = QuestSubject & { questId: string; stepKey: string; submissionId: string; note: string | null };

/** Events about players' quests, with the shape of `data`. Times are ISO 8601. */
type QuestEvents = {
  "quest.started": QuestSubject & {
    questId: string;
    questVersion: number;
    startedBy: "AUTO" | "PLAYER" | "API" | "RULE";
    expiresAt: string | null;
    startedAt: string;
  };
  "quest.progress": QuestSubject & {
    percent: number;
    previousPercent: number;
    steps: { stepKey: string; value: number; target: number; done: boolean; justCompleted: boolean }[];
  };
  "quest.step_completed": QuestSubject & { stepKey: string; rewards: Json | null };
  "quest.completed": QuestSubject & {
    questId: string;
    questVersion: number;
    completions: number;
    durationSeconds: number;
    rewards: Json;
    claimRequired: boolean;
    claimUntil: string | null;
    completedAt: string;
  };
  "quest.claimed": QuestSubject & { rewards: Json };
  "quest.expired": QuestSubject & { percent: number };
  /** A submission for a step waits for somebody's decision. */
  "quest.approval_requested": QuestSubject & {
    questId: string;
    stepKey: string;
    submissionId: string;
    evidenceType: "TEXT" | "URL" | null;
    evidence: string | null;
  };
  /** It counts; what it completes is told after it. */
  "quest.submission_approved": Decided;
  /** It does not count, and the player may submit again. */
  "quest.submission_rejected": Decided;
  "quest.failed": QuestSubject & { cause: Cause };
  /**
   * A line of the player's stream: the quest as the API shows it, and the greatest change of the pass. Where
   * the percent of a quest in progress has changed, `progress` is what `quest.progress` says besides: that
   * event is sent from this row, and has none of its own.
   */
  "quest.updated": PlayerRef & {
    quest: Json;
    change: string;
    progress?: { previousPercent: number; justCompleted: string[] };
  };
};

type BoardPeriod = { leaderboardKey: string; leaderboardId: string; periodKey: string; board: string };

/** A player's final rank when a board closed. */
export type FinalRank = PlayerRef & { displayName: string | null; rank: number; score: number };

/** The scores of all players under one value of a breakdown, and its place; equal ones share a rank. */
export type RankedValue = {
  rank: number;
  value: string;
  players: number;
  total: number;
  average: number;
  best: number;
};

/** Leaderboard events. None of these carries a `player_seq`. */
export type LeaderboardEvents = {
  "leaderboard.rank_changed": PlayerRef &
    BoardPeriod & {
      previousRank: number | null;
      newRank: number;
      direction: "UP" | "DOWN" | "NEW";
      score: number;
      crossed: number[];
      participants: number;
      reason: "BAND" | "DELTA" | "ENTERED";
    };
  "leaderboard.new_leader": BoardPeriod & {
    leader: PlayerRef & { displayName: string | null; score: number };
    previousLeader: (PlayerRef & { score: number }) | null;
    margin: number | null;
  };
  "leaderboard.period_started": BoardPeriod & { startsAt: string | null; endsAt: string | null };
  "leaderboard.period_closed": BoardPeriod & {
    participants: number;
    top: FinalRank[];
    prizesGranted: number;
    promoted: number;
    relegated: number;
    closedAt: string;
  };
  /** `values`: how many there are; `by`: what they are ranked by; `top`: the first ten. */
  "leaderboard.values_ranked": Omit<BoardPeriod, "board"> & {
    by: "total" | "best";
    values: number;
    top: RankedValue[];
    closedAt: string;
  };
  "leaderboard.score_held": PlayerRef &
    BoardPeriod & {
      score: number;
      violation: string;
      reviewId: string;
    };
  /** Internal: feeds the rank index. */
  "leaderboard.entries_changed": { periodId: string; entries: EntryChange[] };
  /** Internal: the definition or status of a board has changed. */
  "leaderboard.changed": { leaderboardId: string };
};

export type LobbyEvents = {
  "lobby.created": {
    lobbyId: string;
    code: string;
    name: string;
    mode: string;
    visibility: LobbyVisibility;
    hasPasscode: boolean;
    host: PlayerRef | null;
    minPlayers: number;
    maxPlayers: number;
    metadata: Json;
    createdVia: "API" | "PLAYER" | "QUICKPLAY";
    createdAt: string;
  };
  "lobby.started": {
    lobbyId: string;
    matchId: string;
    code: string;
    mode: string;
    host: PlayerRef | null;
    players: (PlayerRef & {
      displayName: string | null;
      team: number | null;
      slot: number | null;
      data: Json;
    })[];
    teams: { team: number; playerIds: string[] }[];
    metadata: Json;
    seed: string;
    startedAt: string;
  };
  "lobby.ended": {
    lobbyId: string;
    matchId: string | null;
    mode: string;
    previousStatus: Exclude<LobbyStatus, "CLOSED">;
    closeReason: LobbyCloseReason;
    startedAt: string | null;
    endedAt: string;
    durationSeconds: number | null;
    players: PlayerRef[];
    results: LobbyResult[] | null;
    metadata: Json;
  };
  "lobby.game_finished": {
    lobbyId: string;
    matchId: string;
    mode: string;
    startedAt: string;
    endedAt: string;
    durationSeconds: number;
    results: LobbyResult[];
    nextStatus: "OPEN" | "CLOSED";
  };
  "lobby.member_joined": { lobbyId: string; member: LobbyMember; memberCount: number };
  "lobby.member_left": {
    lobbyId: string;
    playerId: string;
    externalUserId: string;
    reason: "LEFT" | "KICKED" | "TIMEOUT";
    memberCount: number;
  };
  "lobby.host_changed": { lobbyId: string; previousHost: string | null; newHost: string };
  /** Internal, one for each version: notifies the rooms that mirror the lobby, and the list of open ones. */
  "lobby.changed": { lobbyId: string; version: number; occurrences: Occurrence[]; isListed: boolean };
};

type ChatEvents = {
  "chat.message_sent": ChatMessage;
  "chat.message_reported": {
    reportId: string;
    channelId: string;
    seq: number;
    reporter: PlayerRef;
    reason: string;
    reports: number;
  };
  "chat.message_moderated": {
    channelId: string;
    seq: number;
    action: "MASKED" | "BLOCKED" | "HELD" | "REMOVED" | "RESTORED";
    by: "AUTO" | "MODERATOR" | "ADMIN";
    flags: string[];
  };
  "chat.player_sanctioned": PlayerRef & {
    sanctionId: string;
    kind: SanctionKind;
    /** null: in all channels, or in a private one. */
    channelId: string | null;
    isInPrivateChannel: boolean;
    /** null for a private channel. */
    reason: string | null;
    expiresAt: string | null;
  };
  /** Internal: updates for the readers of a channel that are not sent to webhooks. */
  "chat.changed": { channelId: string; lines: ChatLine[] };
};

/** A message on a player's stream without `seq`, which may be lost without harm. */
export type PlayerNotice =
  | {
      name: "lobby.invited";
      data: { lobbyId: string; code: string; from: PlayerRef | null; expiresAt: string };
    }
  | { name: "lobby.kicked"; data: { lobbyId: string; reason: string | null; banned: boolean } }
  | {
      name: "leaderboard.me";
      data: {
        leaderboardKey: string;
        periodKey: string;
        board: string;
        rank: number;
        previousRank: number | null;
        score: number;
        participants: number;
      };
    }
  | {
      name: "chat.sanction";
      data: { kind: "MUTE" | "BAN"; channelId: string | null; expiresAt: string | null; reason: string };
    };

/** A run of a saved report has ended. */
type ReportRunOver = { reportId: string; runId: string; name: string; report: string; dueAt: string };

type ReportEvents = {
  "report.ready": ReportRunOver & {
    /** Local dates of `timezone`, both included. */
    range: { from: string; to: string; timezone: string };
    resultUrl: string;
  };
  "report.failed": ReportRunOver & { error: string };
};

/** Internal: carries a notice to the sockets of one player. */
type NoticeEvents = { "player.notice": { playerId: string; notice: PlayerNotice } };

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
