import { DomainError } from "../domain/kernel/errors.ts";
import {
  connectMember,
  disconnectMember,
  enterMember,
  LOBBY_COMMANDS,
  type LobbyRef,
} from "../domain/social/lobbies/commands.ts";
import type { LobbyChange } from "../domain/kernel/events/lobby-views.ts";
import type { Work } from "../domain/kernel/work.ts";

export type Change = (work: Work) => Promise<LobbyChange | undefined>;

/** How a player's last socket ended: voluntarily, or not. */
export type Absence = "LEAVE" | "DISCONNECT";

export type LobbyPresenceParts = {
  ref(): LobbyRef;
  /** Commits a change after all earlier ones, and shows it. */
  commit(run: Change): Promise<void>;
  /** Has the room show the lobby as it is. */
  refresh(): Promise<void>;
  onError(error: unknown): void;
};

/**
 * Tracks which players are in a room by socket, and reports a player's first and last socket to the domain; a
 * player counts once, whatever the number of sockets.
 */
export class LobbyPresence {
  readonly #parts: LobbyPresenceParts;
  /** The player of each joined session. */
  readonly #sockets = new Map<string, string>();
  /** Players who have asked to leave, and whose sockets are about to close. */
  readonly #leaving = new Set<string>();
  /** Players whose absence has not been reported to the domain yet. */
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

  /**
   * Runs an operation that removes a player; during a game the seat may stay, but none of their sockets may
   * hold it.
   */
  async leave<T>(playerId: string, run: () => Promise<T>): Promise<T> {
    this.#leaving.add(playerId);
    try {
      return await run();
    } catch (error) {
      this.#leaving.delete(playerId);
      throw error;
    }
  }

  /**
   * Takes a socket of a player whom the room shows as a member; the first is reported to the domain.
   * @throws DomainError FORBIDDEN NOT_A_MEMBER for one who is none any more
   */
  async arrive(sessionId: string, playerId: string): Promise<void> {
    const isFirst = !this.isHere(playerId);
    this.#sockets.set(sessionId, playerId);
    this.#absences.delete(playerId);
    this.#leaving.delete(playerId);
    if (!isFirst) return;
    try {
      await this.#parts.commit(async (work) =>
        this.#isComing(playerId) ? enterMember(work, { ...this.#parts.ref(), playerId }) : undefined,
      );
    } catch (error) {
      if (error instanceof DomainError && error.reason === "NOT_A_MEMBER") {
        this.#sockets.delete(sessionId);
        // The next try of one who has left elsewhere takes a seat again.
        await this.#parts.refresh();
      }
      throw error;
    }
  }

  /** Reports to the domain again that a player is present: another room of the lobby has seen them leave. */
  reportPresence(playerId: string): Promise<void> {
    return this.#parts.commit(async (work) =>
      this.#isComing(playerId) ? connectMember(work, this.#parts.ref(), playerId) : undefined,
    );
  }

  #isComing(playerId: string): boolean {
    return this.isHere(playerId) && !this.isLeaving(playerId);
  }

  /**
   * @returns the player whose last socket this was; undefined while there are others, or if it never joined
   */
  depart(sessionId: string): string | undefined {
    const playerId = this.#sockets.get(sessionId);
    this.#sockets.delete(sessionId);
    if (playerId === undefined || this.isHere(playerId)) return undefined;
    this.#leaving.delete(playerId);
    return playerId;
  }

  /** Reports to the domain that a player has no socket; after a failure retry() repeats it. */
  async reportAbsence(playerId: string, absence: Absence): Promise<void> {
    const ref = this.#parts.ref();
    const leave = LOBBY_COMMANDS["lobby.leave"];
    this.#absences.set(playerId, absence);
    try {
      await this.#parts.commit(async (work) => {
        // A player who has returned meanwhile has reported so.
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
    for (const [playerId, absence] of Array.from(this.#absences)) await this.reportAbsence(playerId, absence);
  }
}
