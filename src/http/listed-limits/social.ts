import { CHANNELS_MAX } from "../../domain/social/chat/channels.ts";
import { MENTIONS_MAX } from "../../domain/social/chat/mentions.ts";
import { REPORT_NOTE_MAX, REPORTS_RATE } from "../../domain/social/chat/moderation/report-queue.ts";
import { APPEAL_MAX, SANCTIONS_MAX } from "../../domain/social/chat/moderation/sanction-changes.ts";
import { WORD_LENGTH_MAX } from "../../domain/social/chat/moderation/word-filter.ts";
import { LIST_WORDS_MAX, WORD_LISTS_MAX } from "../../domain/social/chat/moderation/show-sanction.ts";
import { REACTIONS_MAX } from "../../domain/social/chat/send-known.ts";
import { CONTENT_MAX } from "../../domain/social/chat/settings.ts";
import { EMOJI_MAX } from "../../domain/social/chat/context.ts";
import {
  CLOSED_KEPT_MS,
  HEARTBEAT_MS,
  INVITE_MS,
  INVITES_AT_ONCE,
  INVITES_OPEN_MAX,
  LOBBY_DATA_MAX_BYTES,
  LOBBY_LIFE_MS,
  LOBBY_PLAYERS_MAX,
  MEMBER_DATA_MAX_BYTES,
  OPEN_LOBBIES_MAX,
  SPECTATORS_MAX,
} from "../../domain/social/lobbies/fields.ts";
import {
  LOBBIES_FILTER_MAX_BYTES,
  LOBBIES_SHOWN_MAX,
  LOBBY_SOCKETS_MAX,
  REQUESTS_WAITING_MAX,
  SIGNAL_MAX_BYTES,
  SIGNAL_TO_MAX,
  SIGNALS_PER_SECOND_MAX,
} from "../../domain/social/lobbies/room-limits.ts";
import { type Limit, limit, rate } from "./limit.ts";

export const CHAT_LIMITS: readonly Limit[] = [
  limit("chat.channels", CHANNELS_MAX, "items", "channels of a project, without those of lobbies"),
  limit("chat.message.content", CONTENT_MAX, "items", "code points of a message; `maxLength` may be less"),
  limit("chat.message.mentions", MENTIONS_MAX, "items", "players whom a message mentions"),
  limit("chat.message.reactions", REACTIONS_MAX, "items", "different reactions to a message"),
  limit("chat.reaction", EMOJI_MAX, "items", "characters of a reaction"),
  limit("chat.wordLists", WORD_LISTS_MAX, "items", "word lists of a project"),
  limit("chat.wordList.words", LIST_WORDS_MAX, "items", "words of a list"),
  limit("chat.wordList.word", WORD_LENGTH_MAX, "items", "letters of a word"),
  limit("chat.sanctions", SANCTIONS_MAX, "items", "sanctions of a player that hold at one time"),
  limit("chat.report.note", REPORT_NOTE_MAX, "items", "characters of a report's note"),
  limit("chat.appeal", APPEAL_MAX, "items", "characters of an appeal"),
  rate(REPORTS_RATE, "items", "messages that a player reports"),
];

/** Limits of the rooms `lobby` and `lobbies`. */
export const LOBBY_ROOM_LIMITS: readonly Limit[] = [
  limit("lobby.signal", SIGNAL_MAX_BYTES, "bytes", "the payload of a signal in room `lobby`, as JSON"),
  limit("lobby.signal.members", SIGNAL_TO_MAX, "items", "members that a signal names"),
  { ...limit("lobby.signals", SIGNALS_PER_SECOND_MAX, "items", "signals of one member"), windowSeconds: 1 },
  limit("lobby.requests", REQUESTS_WAITING_MAX, "requests", "requests that wait in one room `lobby`"),
  limit("lobby.sockets", LOBBY_SOCKETS_MAX, "items", "sockets and reserved seats of one room `lobby`"),
  limit("lobbies.shown", LOBBIES_SHOWN_MAX, "items", "lobbies that room `lobbies` shows"),
  limit("lobbies.filter", LOBBIES_FILTER_MAX_BYTES, "bytes", "the metadata that room `lobbies` looks for"),
];

export const LOBBY_LIMITS: readonly Limit[] = [
  limit("lobby.open", OPEN_LOBBIES_MAX, "items", "lobbies of a project that are not closed"),
  limit("lobby.players", LOBBY_PLAYERS_MAX, "items", "players of one lobby"),
  limit("lobby.spectators", SPECTATORS_MAX, "items", "spectators of one lobby"),
  limit("lobby.data", LOBBY_DATA_MAX_BYTES, "bytes", "metadata, and privateData, of one lobby as JSON"),
  limit("lobby.member.data", MEMBER_DATA_MAX_BYTES, "bytes", "data of one member, and stats of one result"),
  limit("lobby.invites", INVITES_OPEN_MAX, "items", "invitations of one lobby that nobody has answered"),
  limit("lobby.invites.batch", INVITES_AT_ONCE, "items", "players that one request invites"),
  limit("lobby.invite.kept", INVITE_MS, "ms", "how long an invitation can be accepted"),
  limit("lobby.heartbeat", HEARTBEAT_MS, "ms", "how long a heartbeat keeps a member present"),
  limit("lobby.waits", LOBBY_LIFE_MS, "ms", "how long an open lobby waits for a game"),
  limit("lobby.kept", CLOSED_KEPT_MS, "ms", "how long a closed lobby can be read"),
];
