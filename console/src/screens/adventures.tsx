import { Stack, Text, Tooltip } from "@mantine/core";
import { useApi } from "../api/hooks.ts";
import type { Row } from "../api/client.ts";
import { day, moment } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { DraftForm, DraftPage } from "../ui/draft.tsx";
import { Read, Section, Tiles, tilesOf } from "../ui/page.tsx";
import { Catalogue } from "../ui/catalogue.tsx";

const FIRST = ["name", "key", "season", "startsAt", "endsAt", "items", "tiers", "rewards"];

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();

export const Adventures = () => {
  const all = useApi("listAdventures", { query: { limit: 100 } });
  const initial = { key: "season-1", name: "Season one", startsAt: inDays(1), endsAt: inDays(29), items: [] };
  return (
    <Catalogue
      id="listAdventures"
      one="adventure"
      about="Seasons: quests that belong together, with points, tiers and a premium track."
      form={{ first: FIRST, initial, submit: "Save the draft", done: "Saved as a draft" }}
      filters={["search", "status", "season"]}
      columns={{
        Quests: ({ items }) => items.length,
        Tiers: ({ tiers }) => tiers.length,
        Status: "status",
        Begins: "startsAt",
        Ends: "endsAt",
      }}
      wide={["Tiers"]}
    >
      {all.data && <Calendar adventures={all.data.data} />}
    </Catalogue>
  );
};

/** Days that the calendar shows before today, and in all. */
const BEFORE = 30;
const SHOWN = 150;

/** The seasons of some months, one bar each. */
const Calendar = ({ adventures }: { adventures: Row<"listAdventures">[] }) => {
  const from = Date.now() - BEFORE * 86_400_000;
  const at = (iso: string) =>
    Math.min(100, Math.max(0, ((new Date(iso).getTime() - from) / (SHOWN * 86_400_000)) * 100));
  const shown = adventures.filter(({ startsAt, endsAt }) => at(endsAt) > 0 && at(startsAt) < 100);
  if (shown.length === 0) return null;
  const months = Array.from({ length: 6 }, (_, index) => {
    const date = new Date(from);
    date.setUTCDate(1);
    date.setUTCMonth(date.getUTCMonth() + index);
    return date.toISOString();
  }).filter((iso) => at(iso) > 0 && at(iso) < 95);
  return (
    <Section title="Calendar">
      <div style={{ position: "relative", height: 18 }}>
        {months.map((iso) => (
          <Text key={iso} size="xs" c="dimmed" style={{ position: "absolute", left: `${at(iso)}%` }}>
            {day(iso.slice(0, 10))}
          </Text>
        ))}
      </div>
      <div style={{ position: "relative" }}>
        {shown.map(({ id, name, startsAt, endsAt }) => (
          <Tooltip key={id} label={`${moment(startsAt)} to ${moment(endsAt)}`}>
            <div
              style={{
                marginLeft: `${at(startsAt)}%`,
                width: `${Math.max(2, at(endsAt) - at(startsAt))}%`,
                background: "var(--mantine-color-teal-9)",
                color: "#fff",
                borderRadius: 4,
                padding: "2px 8px",
                marginBottom: 4,
                overflow: "hidden",
                whiteSpace: "nowrap",
                fontSize: 12,
              }}
            >
              {name}
            </div>
          </Tooltip>
        ))}
        <div
          aria-hidden
          style={{
            position: "absolute",
            top: 0,
            bottom: 0,
            left: `${(BEFORE / SHOWN) * 100}%`,
            borderLeft: "2px solid var(--mantine-color-red-6)",
          }}
        />
      </div>
    </Section>
  );
};

export const AdventurePage = ({ id }: { id: string }) => (
  <DraftPage
    kind="adventure"
    id={id}
    design={(adventure) => <DraftForm kind="adventure" of={adventure} first={FIRST} />}
    pages={() => ({ stats: ["How it goes", () => <Stats id={id} />] })}
  />
);

const Stats = ({ id }: { id: string }) => (
  <Read id="getAdventureStats" given={{ path: { adventureId: id } }}>
    {({ players, states, premium, averagePoints, items, tiers }) => (
      <Stack>
        <Tiles
          of={{
            Players: players,
            "With premium": premium,
            "Points on average": averagePoints,
            ...tilesOf(states),
          }}
        />
        <Section title="Quests done">
          <Bars rows={items.map(({ questKey, done }) => ({ name: questKey, value: done }))} />
        </Section>
        <Section title="Tiers reached">
          <Bars rows={tiers.map(({ tier, reached }) => ({ name: `Tier ${tier}`, value: reached }))} />
        </Section>
      </Stack>
    )}
  </Read>
);
