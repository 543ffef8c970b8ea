import type { Work } from "../../kernel/work.ts";
import { findStandingsAnywhere, isMember } from "./access.ts";
import { channelOf, type ChannelRef } from "./channel-row.ts";

/** A player who reads a channel. */
export type Reader = ChannelRef & { playerId: string };

const MAY_READ: ReadonlySet<string | null> = new Set(["ACTIVE", "SUSPENDED"]);

/** Key of a reader in the result of `findReaders`. */
export const readerKey = (channelId: string, playerId: string): string => `${channelId}:${playerId}`;

/**
 * Returns those of `present` who may still read their channel, by `readerKey`; for many channels in one
 * statement.
 */
export const findReaders = async (work: Work, present: readonly Reader[]): Promise<Set<string>> => {
  const rows = await findStandingsAnywhere(work, present);
  const may = present.filter(({ projectId }, n) => {
    const row = rows[n];
    if (!row || row.is_banned || !MAY_READ.has(row.player_status)) return false;
    const { kind, closedMs } = channelOf(projectId, row);
    const { is_listed: isListed, is_in_lobby: isInLobby } = row;
    return isMember({ kind, closedMs, isListed, isInLobby }, work.now.getTime());
  });
  return new Set(may.map(({ channelId, playerId }) => readerKey(channelId, playerId)));
};
