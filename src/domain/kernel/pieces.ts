import { nextSlice } from "./slices.ts";

/** What one statement reads or writes at most: what an embedded engine stores in about 10 ms. */
const PIECE = { items: 100, bytes: 128 * 1024 };

/** Divides rows into pieces of at most PIECE each, unless a single row is larger. */
const piecesOf = <T extends { bytes: number }>(rows: readonly T[]): T[][] => {
  const pieces: T[][] = [];
  let left = 0;
  for (const row of rows) {
    const piece = pieces.at(-1);
    if (piece && piece.length < PIECE.items && row.bytes <= left) piece.push(row);
    else {
      pieces.push([row]);
      left = PIECE.bytes;
    }
    left -= row.bytes;
  }
  return pieces;
};

/**
 * Runs `statement` for rows piece by piece, and yields to other work in between.
 * @param rows `bytes`: what is read or written of each
 */
export const inPieces = async <T extends { bytes: number }>(
  rows: readonly T[],
  statement: (piece: readonly T[]) => Promise<unknown>,
): Promise<void> => {
  for (const piece of piecesOf(rows)) {
    await statement(piece);
    await nextSlice();
  }
};
