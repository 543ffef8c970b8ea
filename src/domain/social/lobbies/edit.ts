import { closeLobbyChannel } from "../chat/channels.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { LobbyEvents } from "../../kernel/events/realtime-events.ts";
import type { Work } from "../../kernel/work.ts";
import { dueAt } from "./due.ts";
import { readPeople, showLobby } from "./show.ts";
import { isListed, type Lock, type LobbyRef, type LobbyState, lockLobby, type Member } from "./state.ts";
import type { LobbyChange, LobbyOccurrence, Occurrence } from "../../kernel/events/lobby-views.ts";
import { writeLobby, type NewMatch } from "./write.ts";

/**
 * A change of one lobby in progress: its row is locked, and everything is applied to `lobby` in memory until
 * it is saved as the next version.
 */
export type LobbyEdit = {
  work: Work;
  lobby: LobbyState;
  /** Whether it was listed before the change. */
  wasListed: boolean;
  wasClosed: boolean;
  /** Occurrences, in order. */
  occurrences: Occurrence[];
  /** Members whose rows are to be written, including those who have left. */
  touched: Map<string, Member>;
  match: NewMatch | undefined;
  /** Whether there is a visible change: a new version. */
  isChanged: boolean;
};

export const turnOf = (work: Work, lobby: LobbyState): LobbyEdit => ({
  work,
  lobby,
  wasListed: isListed(lobby),
  wasClosed: lobby.status === "CLOSED",
  occurrences: [],
  touched: new Map(),
  match: undefined,
  isChanged: false,
});

/** Marks the lobby, and members, as visibly changed. */
export const touch = (edit: LobbyEdit, ...members: readonly Member[]): void => {
  edit.isChanged = true;
  for (const member of members) edit.touched.set(member.playerId, member);
};

/** Adds an occurrence for rooms. */
export const addOccurrence = (edit: LobbyEdit, name: LobbyOccurrence, data: Json): void =>
  void edit.occurrences.push({ name, data });

type AnnouncedEvent = Exclude<keyof LobbyEvents, "lobby.created" | "lobby.changed">;

/** Adds an event for rooms and integrators. */
export const announce = <T extends AnnouncedEvent>(edit: LobbyEdit, name: T, data: LobbyEvents[T]): void => {
  addOccurrence(edit, name, data);
  edit.work.emit(edit.lobby.projectId, name, data as never);
};

/**
 * Changes a lobby under its lock: at most one new version, saved and announced in the commit of `work`.
 * @throws DomainError NOT_FOUND, and what `run` throws
 */
export const changeLobby = async (
  work: Work,
  ref: LobbyRef,
  run: (edit: LobbyEdit) => Promise<void> | void,
): Promise<LobbyChange> => {
  const edit = await takeLobby(work, ref);
  if (!edit) throw notFound("lobby");
  await run(edit);
  return saveEdit(edit);
};

/**
 * Locks a lobby for a change; undefined when there is none, or with "skip" when another transaction has
 * locked it.
 */
export const takeLobby = async (work: Work, ref: LobbyRef, lock?: Lock): Promise<LobbyEdit | undefined> => {
  const lobby = await lockLobby(work, ref, lock);
  return lobby && turnOf(work, lobby);
};

/** Writes the changes of a turn, and returns the lobby as its members see it. */
export const saveEdit = async (edit: LobbyEdit): Promise<LobbyChange> => {
  const { work, lobby, occurrences, isChanged } = edit;
  if (isChanged) {
    lobby.version += 1;
    lobby.updatedAt = work.now;
  }
  const due = dueAt(lobby);
  const isRescheduled = due?.getTime() !== lobby.dueAt?.getTime();
  lobby.dueAt = due;
  if (isChanged || isRescheduled || edit.touched.size > 0) await writeLobby(edit);
  if (isChanged) publishChange(edit);
  if (!edit.wasClosed && lobby.status === "CLOSED") await closeChannel(work, lobby);
  const people = await readPeople(work, [lobby]);
  return { lobby: showLobby(lobby, { people, isPrivate: true }), occurrences };
};

const publishChange = ({ work, lobby, occurrences, wasListed }: LobbyEdit): void => {
  const { id, projectId, version } = lobby;
  const shown = wasListed || isListed(lobby);
  work.emit(projectId, "lobby.changed", { lobbyId: id, version, occurrences, isListed: shown });
};

const closeChannel = async (work: Work, { projectId, id, channelId }: LobbyState): Promise<void> => {
  if (channelId !== null) await closeLobbyChannel(work, projectId, id);
};
