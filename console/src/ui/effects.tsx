import { Group, Text } from "@mantine/core";
import { count, number, words } from "../format.ts";
import { Hint } from "./page.tsx";

/** What an effect names: the first of these fields that it has, or that a part of it has. */
const KEYS = ["badge", "quest", "adventure", "streak", "reward", "segment", "boost", "leaderboard"];

const keyOf = (data: any): string | undefined =>
  KEYS.map((kind) => data[`${kind}Key`] ?? data[kind]?.[`${kind}Key`]).find((key) => key != null);

/** What an effect or a line of a player's stream says, in words: `player.xp_granted` with 10 → +10 XP. */
export const describe = (type: string, data: any): string => {
  const d = data ?? {};
  const amount = d.amount ?? d.delta;
  const sign = amount > 0 ? "+" : "";
  if (/xp/.test(type) && typeof amount === "number") return `${sign}${number(amount)} XP`;
  if (/currency/.test(type) && typeof amount === "number") return sign + count(amount, d.currencyKey ?? "");
  if (/lives/.test(type) && typeof amount === "number")
    return `${sign}${number(amount)} ${Math.abs(amount) === 1 ? "life" : "lives"}`;
  if (/level/.test(type) && (d.newLevel ?? d.level) !== undefined)
    return `Level ${number(d.newLevel ?? d.level)}`;
  const what = words(type.replace(/^player\.(?=.*_)/, ""));
  const key = keyOf(d);
  return key === undefined ? what : `${what}: ${d.name ?? key}`;
};

export const Effect = ({ type, data }: { type: string; data: unknown }) => (
  <Text component="span" title={type}>
    {describe(type, data)}
  </Text>
);

type EffectsProps = { of: readonly { type: string; data?: unknown }[] };

/** What was brought about, one below the other. */
export const Effects = ({ of }: EffectsProps) =>
  of.map(({ type, data }, index) => (
    <Group key={index} gap="xs">
      → <Effect type={type} data={data} />
      <Hint size="xs">{type}</Hint>
    </Group>
  ));
