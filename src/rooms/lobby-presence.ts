import { DomainError } from "../domain/kernel/errors.ts";
import {
  connectMember,
  disconnectMember,
  LOBBY_COMMANDS,
  type LobbyRef,
} from "../domain/social/lobbies/commands.ts";
import type { LobbyChange } from "../domain/kernel/events/lobby-views.ts";
import type { Work } from "../domain/kernel/work.ts";

export type Change = (work: Work) => Promise<LobbyChange | undefined>;

/** How a player's last socket has gone: by their will, or not. */
export type Absence = "LEAVE" | "DISCONNECT";

export type LobbyPresenceParts = {
  ref(): LobbyRef;
  /** Commits a change after all that was asked before, and shows it. */
  commit(run: Change): Promise<void>;
  onError(error: unknown): void;
};

/**
 * Who is in a room by socket. The domain is told when a player's first socket is there and when the last one
 * has gone; a player counts once, however many there are.
 */
export class LobbyPresence {
  readonly #parts: LobbyPresenceParts;
  /** The player of each session that has joined. */
  readonly #sockets = new Map<string, string>();
  /** Who has asked to leave, and whose sockets are about to end. */
  readonly #leaving = new Set<string>();
  /** Of whose absence the domain has not been told yet. */
  readonly #absences = new Map<string, Absence>();

  constructor(parts: LobbyPresenceParts) {
    this.#parts = parts;
  }

  playerOf(sessionId: string): string | undefined {
    return this.#sockets.get(sessionId);
  }

  isHere(playerId: string): boolean {
    return [...this.#sockets.values()].includes(playerId);
  }

  isLeaving(playerId: string): boolean {
    return this.#leaving.has(playerId);
  }

  /** Runs what takes a player out; in a game the seat may stay, and no socket of theirs is to hold it. */
  async leave<T>(playerId: string, run: () => Promise<T>): Promise<T> {
    this.#leaving.add(playerId);
    try {
      return await run();
    } catch (error) {
      this.#leaving.delete(playerId);
      throw error;
    }
  }

  async arrive(sessionId: string, playerId: string): Promise<void> {
    const isFirst = !this.isHere(playerId);
    this.#sockets.set(sessionId, playerId);
    this.#absences.delete(playerId);
    this.#leaving.delete(playerId);
    if (isFirst) await this.remind(playerId);
  }

  /** Tells the domain again that a player is here: another room of the lobby has seen them go. */
  remind(playerId: string): Promise<void> {
    return this.#parts.commit(async (work) =>
      this.isHere(playerId) && !this.isLeaving(playerId)
        ? connectMember(work, this.#parts.ref(), playerId)
        : undefined,
    );
  }

  /** @returns the player whose last socket this was; undefined while there are others, or it never joined */
  depart(sessionId: string): string | undefined {
    const playerId = this.#sockets.get(sessionId);
    this.#sockets.delete(sessionId);
    if (playerId === undefined || this.isHere(playerId)) return undefined;
    this.#leaving.delete(playerId);
    return playerId;
  }

  /** Tells the domain that nobody is there for a player; when that fails, retry() does it again. */
  async miss(playerId: string, absence: Absence): Promise<void> {
    const ref = this.#parts.ref();
    const leave = LOBBY_COMMANDS["lobby.leave"];
    this.#absences.set(playerId, absence);
    try {
      await this.#parts.commit(async (work) => {
        // Who has come back in the meantime has told so.
        if (this.isHere(playerId)) return undefined;
        if (absence === "DISCONNECT") return disconnectMember(work, ref, playerId);
        return leave.run(work, ref, { kind: "PLAYER", playerId }, leave.body.parse({}));
      });
    } catch (error) {
      this.#parts.onError(error);
      if (!(error instanceof DomainError)) return;
    }
    this.#absences.delete(playerId);
  }

  async retry(): Promise<void> {
    for (const [playerId, absence] of Array.from(this.#absences)) await this.miss(playerId, absence);
  }
}
