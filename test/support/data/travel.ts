import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";

const TRAVEL = new URL("../../../../shared/data/travel-se-2011-2014.ndjson.gz", import.meta.url).pathname;

export const hasTravelData = existsSync(TRAVEL);

/** A line of the file, which is an event as the batch endpoint takes it. */
export type Line = {
  externalUserId: string;
  eventType: string;
  properties: Record<string, unknown>;
  timestamp: string;
  idempotencyKey: string;
};

/** The events before a date, in the order of the file. */
export const travelLines = async (until: string): Promise<Line[]> => {
  const lines: Line[] = [];
  for await (const text of createInterface({ input: createReadStream(TRAVEL).pipe(createGunzip()) })) {
    const line = JSON.parse(text) as Line;
    if (line.timestamp >= until) break;
    lines.push(line);
  }
  return lines;
};
