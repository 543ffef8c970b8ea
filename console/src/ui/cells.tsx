import { Group, SimpleGrid, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { count, number, words } from "../format.ts";
import { Hint, Status, When } from "./page.tsx";

type Simple = string | number | boolean | readonly string[] | null | undefined;
type FieldOf<T> = { [K in keyof T]-?: T[K] extends Simple ? K : never }[keyof T] & string;

/** What a column or a fact shows, by its title: a field by its name, or what is made of the row. */
export type Columns<T> = Record<string, FieldOf<T> | ((row: T) => ReactNode)>;

/** Fields whose values are names of the API. */
const NAMES = /^(kind|plan|role|rarity|source|method|action|report|violation|visibility)$/;

/** What is shown of a row; a field as its name and its value ask for. */
export const cellOf = <T,>(row: T, show: Columns<T>[string]): ReactNode => {
  if (typeof show === "function") return show(row);
  const value = row[show as keyof T] as Simple;
  if (show.endsWith("At")) return <When at={value as string | null} />;
  if (/^state$|status$/i.test(show)) return <Status value={value as string | null} />;
  if (NAMES.test(show) && typeof value === "string") return words(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join(", ") : (value as ReactNode);
};

/** Numbers as the reader writes them, and a dash where there is nothing. */
export const textOf = (value: ReactNode): ReactNode =>
  typeof value === "number" ? number(value) : (value ?? "–");

/** Names and values, such as the properties of one thing. */
export const Facts = <T,>({ of, show }: { of: T; show: Columns<T> }) => (
  <SimpleGrid cols={{ base: 2, sm: 3, lg: 4 }} spacing="md">
    {Object.entries(show).map(([name, one]) => (
      <div key={name}>
        <Hint size="xs">{name}</Hint>
        <Text component="div" style={{ overflowWrap: "anywhere" }}>
          {textOf(cellOf(of, one))}
        </Text>
      </div>
    ))}
  </SimpleGrid>
);

/** What an effect names: the first of these fields that it has, or that a part of it has. */
const KEYS = ["badge", "quest", "adventure", "streak", "reward", "segment", "boost", "leaderboard"];

const keyOf = (data: any): string | undefined =>
  KEYS.map((kind) => data[`${kind}Key`] ?? data[kind]?.[`${kind}Key`]).find((key) => key != null);

/** What an effect or a line of a player's stream says, in words: `player.xp_granted` with 10 → +10 XP. */
export const describe = (type: string, data: any): string => {
  const d = data ?? {};
  const amount = /spent|expired/.test(type) && d.amount ? -d.amount : (d.amount ?? d.delta);
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

/** What was brought about, one below the other. */
export const Effects = ({ of }: { of: readonly { type: string; data?: unknown }[] }) =>
  of.map(({ type, data }, index) => (
    <Group key={index} gap="xs">
      → <Effect type={type} data={data} />
      <Hint size="xs">{type}</Hint>
    </Group>
  ));
