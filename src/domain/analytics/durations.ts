import { parseDuration } from "../evaluation/language/text.ts";

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Returns the ms of a duration such as `30m`, `24h`, `7d`, `2w`, `P7D` or `PT12H`; undefined otherwise. */
export const readDuration = (text: string): number | undefined => {
  const short = /^(\d{1,7})([mhdw])$/.exec(text);
  if (!short) return parseDuration(text);
  return Number(short[1]) * UNITS_MS[short[2] as keyof typeof UNITS_MS];
};

/** Returns an ISO 8601 duration of at least a second. */
export const showDuration = (ms: number): string => {
  const seconds = Math.floor(ms / 1_000);
  if (seconds % 86_400 === 0) return `P${seconds / 86_400}D`;
  const parts = [
    [Math.floor(seconds / 3_600), "H"],
    [Math.floor((seconds % 3_600) / 60), "M"],
    [seconds % 60, "S"],
  ] as const;
  return `PT${parts.map(([count, unit]) => (count === 0 ? "" : `${count}${unit}`)).join("")}`;
};
