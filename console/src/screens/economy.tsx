import { Badge, SimpleGrid, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Answer, call, operation } from "../api/client.ts";
import { useCan, useRead } from "../api/hooks.ts";
import { count, nameOf, number, words } from "../format.ts";
import { type Columns, Facts } from "../ui/cells.tsx";
import { Bars } from "../ui/chart.tsx";
import { Archive, ChangeForm, DefinitionForm, Definitions, pathOf } from "../ui/catalogue.tsx";
import { form, JobProgress } from "../ui/operations.tsx";
import { Chips, Dialog, ErrorNote, Page, press, Section, Tiles } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";

/** What a designer sees of a kind of definition. */
type Kind = {
  about: string;
  form: { first: string[]; initial?: object };
  columns: Columns<any>;
  wide?: string[];
  /** More about one of them. */
  more?: (row: any) => ReactNode;
};

const KINDS: Record<string, Kind> = {
  currencies: {
    about: "What players earn and spend: coins, gems, energy.",
    form: { first: ["name", "key", "initialBalance", "maxBalance"] },
    columns: {
      "At the start": "initialBalance",
      "At most": "maxBalance",
      Expires: ({ expiryDays }) => (expiryDays ? `after ${count(expiryDays, "days")}` : "never"),
    },
    wide: ["Expires"],
  },
  badges: {
    about: "What players show: once, in tiers, or again and again.",
    form: { first: ["name", "key", "description", "rarity", "tiers", "progressMetric"] },
    columns: {
      Rarity: ({ rarity }) => <Badge color="violet">{words(rarity)}</Badge>,
      Tiers: ({ tiers }) => tiers.length,
      Points: "points",
    },
    wide: ["Points"],
    more: ({ id }) => <Holders id={id} />,
  },
  streaks: {
    about: "Days, weeks or months in a row, with freezes and repairs.",
    form: { first: ["name", "key", "period", "qualify"] },
    columns: {
      Every: ({ period }) => words(period),
      "Grace, in hours": ({ graceSeconds }) => graceSeconds / 3600,
    },
    wide: ["Grace, in hours"],
  },
  rewards: {
    about: "Bundles of the economy and prizes with codes: given, claimed or bought.",
    form: { first: ["name", "key", "kind", "bundle", "price", "stock"], initial: { kind: "BUNDLE" } },
    columns: {
      Kind: "kind",
      Price: ({ price }) => price && count(price.amount, price.currencyKey),
      Stock: "stock",
    },
    wide: ["Stock"],
    more: (reward) => <Stock reward={reward} />,
  },
  boosts: {
    about: "Double XP for a weekend: multiplies what players get, for all or for a segment.",
    form: {
      first: ["name", "key", "applies", "factor", "startsAt", "expiresAt"],
      initial: { applies: "xp", factor: 2 },
    },
    columns: {
      "Applies to": ({ applies }) => words(applies),
      Factor: "factor",
      From: "startsAt",
      Until: "expiresAt",
    },
    wide: ["From"],
  },
  segments: {
    about: "Groups of players, by a list or by conditions that are kept up to date.",
    form: { first: ["name", "key", "kind", "definition"], initial: { kind: "DYNAMIC" } },
    columns: { Kind: "kind", Members: "memberCount" },
    more: (segment) => <Members segment={segment} />,
  },
  levels: {
    about: "Names, rewards and perks of single levels.",
    form: { first: ["name", "key", "rewards"] },
    columns: {
      Rewards: ({ rewards }) => <Chips of={Object.keys(rewards ?? {}).map(words)} />,
    },
  },
};

/** currencies → currency, by which its operations are named. */
const oneOf = (kind: string): string => kind.replace(/ies$/, "ys").replace(/s$/, "");

export const Economy = ({ kind = "currencies" }: { kind?: string }) => {
  const can = useCan();
  const kinds = Object.entries(KINDS).map(([name, of]) => {
    const id = operation("list", name) as "listBadges";
    const show = () => <Definitions {...of} id={id} one={oneOf(name)} at={`/economy/${name}`} />;
    return [name, can(id) && [words(name), show]];
  });
  return (
    <Page
      title="Economy"
      actions={form("startBulkGrant", "Give to many", {
        first: ["segmentKey", "bundle", "reason"],
        submit: "Give",
        job: ["Grant to many"],
      })}
      open={kind}
      at="/economy"
      pages={{
        ...Object.fromEntries(kinds),
        curve: ["Level curve", () => <Curve />],
        "event-types": ["Event types", () => <EventTypes />],
      }}
    />
  );
};

export const DefinitionPage = ({ kind, id }: { kind: string; id: string }) =>
  Object.hasOwn(KINDS, kind) ? <Definition kind={kind} of={KINDS[kind]!} id={id} /> : <Economy kind={kind} />;

const Definition = ({ kind, of, id }: { kind: string; of: Kind; id: string }) => {
  const one = oneOf(kind);
  const at = `/economy/${kind}`;
  const row: any = useRead(operation("get", one), { path: pathOf(one, id) });
  const text = "It cannot be given any more. What players have of it stays.";
  return (
    <Page
      title={row.name}
      parent={[words(kind), at]}
      actions={<Archive one={one} of={row} at={at} text={text} />}
    >
      <Facts of={row} show={{ Status: "status", Key: "key", Version: "version", Changed: "updatedAt" }} />
      <SimpleGrid cols={{ base: 1, md: 2 }} style={{ alignItems: "start" }}>
        <DefinitionForm one={one} of={row} first={of.form.first} />
        {of.more?.(row)}
      </SimpleGrid>
    </Page>
  );
};

const Holders = ({ id }: { id: string }) => (
  <List
    section="Who has it"
    id="listBadgeHolders"
    path={{ badgeId: id }}
    limit={10}
    to={({ playerId }) => `/players/${playerId}`}
    empty="Nobody yet"
    columns={{ Player: nameOf, Tier: "tier", Earned: "lastEarnedAt" }}
  />
);

const Stock = ({ reward: { id, fulfilment } }: { reward: any }) => {
  const path = { rewardId: id };
  return (
    <Section
      title="Stock"
      actions={[
        fulfilment === "CODE" && form("addRewardCodes", "Add codes", { path, submit: "Add" }),
        form("grantReward", "Give to a player", { path, first: ["playerId", "quantity"], submit: "Give" }),
      ]}
    >
      <StockTiles path={path} />
    </Section>
  );
};

const StockTiles = ({ path }: { path: { rewardId: string } }) => {
  const { given, left, freeCodes } = useRead("getRewardStock", { path });
  const codes = freeCodes ?? undefined;
  return <Tiles columns={2} of={{ Given: given, Left: left ?? "no limit", "Free codes": codes }} />;
};

const changed = ({ changed: players, unknown }: Answer<"addSegmentMembers">) =>
  `${count(players, "players")} changed. ${unknown.length > 0 ? `Unknown: ${unknown.join(", ")}` : ""}`;

const Members = ({ segment: { id, kind, memberCount } }: { segment: any }) => {
  const path = { segmentId: id };
  return (
    <List
      section={count(memberCount, "members")}
      beside={
        kind === "STATIC" && [
          form("addSegmentMembers", "Add", { path, tells: changed }),
          form("removeSegmentMembers", "Remove", { path, tells: changed }),
        ]
      }
      id="listSegmentMembers"
      path={path}
      limit={10}
      to={({ playerId }) => `/players/${playerId}`}
      empty="Nobody yet"
      columns={{ Player: nameOf, Since: "enteredAt" }}
    />
  );
};

const Curve = () => {
  const curve = useRead("getLevelCurve");
  const { maxLevel, thresholds, version } = curve;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} style={{ alignItems: "start" }}>
      <CurveForm curve={curve} key={version} />
      <PlainTable
        section={`XP for each of ${number(maxLevel)} levels`}
        rows={thresholds.slice(0, 100).map((xp, index) => ({
          level: index + 1,
          xp,
          more: xp - (thresholds[index - 1] ?? 0),
        }))}
        columns={{ Level: "level", "From XP": "xp", "More than the one before": "more" }}
      />
    </SimpleGrid>
  );
};

const CurveForm = ({ curve: { type, params } }: { curve: Answer<"getLevelCurve"> }) => {
  const initial = { type, params };
  const [{ recalculate: _later, ...body }, setValue] = useState<any>(initial);
  const [job, setJob] = useState<string>();
  const preview = useMutation({ mutationFn: () => call("previewLevelCurve", { body }) });
  const bars = preview.data?.distribution.map(({ level, players }) => ({
    name: `Level ${level}`,
    value: players,
  }));
  return (
    <Stack>
      <ChangeForm
        id="putLevelCurve"
        initial={initial}
        onChange={setValue}
        onDone={({ job: started }) => started && setJob(started.id)}
      >
        {press("Where would players be?", preview.mutate, { loading: preview.isPending })}
      </ChangeForm>
      <ErrorNote error={preview.error} />
      {job && <JobProgress id={job} title="Levels of all players" />}
      <Dialog isOpen={bars !== undefined} onClose={preview.reset} title="Players by level" size="md">
        {() => <Bars rows={bars!} />}
      </Dialog>
    </Stack>
  );
};

const EventTypes = () => (
  <List
    id="listEventTypes"
    filters={["search", "enforcement"]}
    empty="No events have come yet"
    hint="Each type shows up with its properties as soon as one comes."
    columns={{
      Name: "name",
      Events: "total",
      Properties: ({ properties }) => properties.map(({ path }) => path).join(", "),
      Schema: ({ schema, enforcement }) => schema && words(enforcement),
      Last: "lastSeenAt",
    }}
    wide={["Properties"]}
    dialog={[
      ({ name }) => name,
      ({ name, properties, schema, enforcement }, close) => (
        <Stack>
          <PlainTable
            name="Properties"
            rows={properties}
            columns={{
              Property: "path",
              Types: "types",
              "For example": ({ samples }) => samples.map((one) => JSON.stringify(one)).join(", "),
            }}
          />
          <ChangeForm
            id="putEventType"
            path={{ name }}
            initial={{ schema: schema ?? undefined, enforcement }}
            onDone={close}
          />
        </Stack>
      ),
    ]}
  />
);
