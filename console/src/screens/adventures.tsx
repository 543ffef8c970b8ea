import { Box, Stack, Text, Tooltip } from "@mantine/core";
import { useRead } from "../api/hooks.ts";
import { day, moment } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { Section, Tiles, tilesOf } from "../ui/page.tsx";
import { Catalogue, DefinitionForm, DRAFT, DraftPage } from "../ui/catalogue.tsx";

const FIRST = ["name", "key", "season", "startsAt", "endsAt", "items", "tiers", "rewards"];

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();

export const Adventures = () => {
  const initial = { key: "season-1", name: "Season one", startsAt: inDays(1), endsAt: inDays(29), items: [] };
  return (
    <Catalogue
      id="listAdventures"
      one="adventure"
      about="Seasons: quests that belong together, with points, tiers and a premium track."
      form={{ ...DRAFT, first: FIRST, initial }}
      filters={["search", "status", "season"]}
      columns={{
        Quests: ({ items }) => items.length,
        Tiers: ({ tiers }) => tiers.length,
        Begins: "startsAt",
        Ends: "endsAt",
      }}
      wide={["Tiers"]}
    >
      <Calendar />
    </Catalogue>
  );
};

/** Days that the calendar shows before today, and in all. */
const BEFORE = 30;
const SHOWN = 150;

/** Where a moment is in the calendar: how much of it lies before, in percent. */
const placeOf = (iso: string): number => {
  const days = BEFORE + (new Date(iso).getTime() - Date.now()) / 86_400_000;
  return Math.min(100, Math.max(0, (days / SHOWN) * 100));
};

/** The seasons of some months, one bar each. */
const Calendar = () => {
  const { data } = useRead("listAdventures", { query: { limit: 100 } });
  const shown = data.filter(({ startsAt, endsAt }) => placeOf(endsAt) > 0 && placeOf(startsAt) < 100);
  if (shown.length === 0) return null;
  const months = Array.from({ length: 6 }, (_, index) => {
    const date = new Date(inDays(-BEFORE));
    date.setUTCMonth(date.getUTCMonth() + index, 1);
    return date.toISOString();
  }).filter((iso) => placeOf(iso) > 0 && placeOf(iso) < 95);
  return (
    <Section title="Calendar">
      <Box pos="relative" h={18}>
        {months.map((iso) => (
          <Text key={iso} size="xs" c="dimmed" pos="absolute" left={`${placeOf(iso)}%`}>
            {day(iso.slice(0, 10))}
          </Text>
        ))}
      </Box>
      <Box pos="relative">
        {shown.map(({ id, name, startsAt, endsAt }) => (
          <Tooltip key={id} label={`${moment(startsAt)} to ${moment(endsAt)}`}>
            <Text
              ml={`${placeOf(startsAt)}%`}
              w={`${Math.max(2, placeOf(endsAt) - placeOf(startsAt))}%`}
              bg="teal.9"
              c="white"
              px="xs"
              mb={4}
              size="xs"
              truncate
            >
              {name}
            </Text>
          </Tooltip>
        ))}
        <Box aria-hidden pos="absolute" top={0} h="100%" w={2} bg="red.6" left={`${placeOf(inDays(0))}%`} />
      </Box>
    </Section>
  );
};

export const AdventurePage = ({ id }: { id: string }) => (
  <DraftPage
    one="adventure"
    id={id}
    pages={(adventure) => ({
      design: ["Design", () => <DefinitionForm one="adventure" of={adventure} first={FIRST} />],
      stats: ["How it goes", () => <Stats id={id} />],
    })}
  />
);

const Stats = ({ id }: { id: string }) => {
  const path = { adventureId: id };
  const { players, states, premium, averagePoints, items, tiers } = useRead("getAdventureStats", { path });
  return (
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
  );
};
