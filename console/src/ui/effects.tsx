import { Text } from "@mantine/core";
import { number, words } from "../format.ts";

/** What an effect or a line of a player's stream says, in words: `player.xp_granted` with 10 → +10 XP. */
export const describe = (type: string, data: any): string => {
  const d = data ?? {};
  const signed = (value: number) => `${value > 0 ? "+" : ""}${number(value)}`;
  const amount = d.amount ?? d.delta;
  const key =
    d.badgeKey ??
    d.questKey ??
    d.adventureKey ??
    d.streakKey ??
    d.rewardKey ??
    d.segmentKey ??
    d.boostKey ??
    d.leaderboardKey ??
    d.boost?.boostKey ??
    d.quest?.questKey ??
    d.adventure?.adventureKey;
  if (/xp/.test(type) && typeof amount === "number") return `${signed(amount)} XP`;
  if (/currency/.test(type) && typeof amount === "number") return `${signed(amount)} ${d.currencyKey ?? ""}`;
  if (/lives/.test(type) && typeof amount === "number") return `${signed(amount)} lives`;
  if (/level/.test(type) && (d.newLevel ?? d.level) !== undefined)
    return `Level ${number(d.newLevel ?? d.level)}`;
  const what = words(type.replace(/^player\.(?=.*_)/, ""));
  return key === undefined ? what : `${what}: ${d.name ?? key}`;
};

export const Effect = ({ type, data }: { type: string; data: unknown }) => (
  <Text component="span" title={type}>
    {describe(type, data)}
  </Text>
);
