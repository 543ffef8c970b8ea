import { Badge, Grid, Group, Modal, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Answer, call, operation } from "../api/client.ts";
import { useAny, useCan, useGo } from "../api/hooks.ts";
import { count, nameOf, number, words } from "../format.ts";
import { type Columns, Facts } from "../ui/cells.tsx";
import { Bars } from "../ui/chart.tsx";
import { DefinitionForm, Definitions } from "../ui/catalogue.tsx";
import { JobProgress } from "../ui/job.tsx";
import { ask, form } from "../ui/operations.tsx";
import { ErrorNote, Loaded, Page, press, Read, Section, Tiles } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";

/** What a designer sees of a kind of definition, whose operations are named after it. */
type Kind = {
  title: string;
  /** What one of them is. */
  one: string;
  about: string;
  form: { first: string[]; initial?: object };
  columns: Columns<any>;
  wide?: string[];
  right?: string[];
  /** More about one of them. */
  more?: (row: any) => ReactNode;
};

const KINDS: Record<string, Kind> = {
  currencies: {
    title: "Currencies",
    one: "currency",
    about: "What players earn and spend: coins, gems, energy.",
    form: { first: ["name", "key", "initialBalance", "maxBalance"] },
    columns: {
      "At the start": "initialBalance",
      "At most": "maxBalance",
      Expires: ({ expiryDays }) => (expiryDays ? `after ${count(expiryDays, "days")}` : "never"),
    },
    wide: ["Expires"],
    right: ["At most"],
  },
  badges: {
    title: "Badges",
    one: "badge",
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
    title: "Streaks",
    one: "streak",
    about: "Days, weeks or months in a row, with freezes and repairs.",
    form: { first: ["name", "key", "period", "qualify"] },
    columns: {
      Every: ({ period }) => words(period),
      Grace: ({ graceSeconds }) => `${number(graceSeconds / 3600)} h`,
    },
    wide: ["Grace"],
    right: ["Grace"],
  },
  rewards: {
    title: "Rewards",
    one: "reward",
    about: "Bundles of the economy and prizes with codes: given, claimed or bought.",
    form: { first: ["name", "key", "kind", "bundle", "price", "stock"], initial: { kind: "BUNDLE" } },
    columns: {
      Kind: "kind",
      Price: ({ price }) => price && count(price.amount, price.currencyKey),
      Stock: "stock",
    },
    wide: ["Stock"],
    right: ["Price", "Stock"],
    more: (reward) => <Stock reward={reward} />,
  },
  boosts: {
    title: "Boosts",
    one: "boost",
    about: "Double XP for a weekend: multiplies what players get, for all or for a segment.",
    form: {
      first: ["name", "key", "applies", "factor", "startsAt", "expiresAt"],
      initial: { applies: "xp", factor: 2 },
    },
    columns: {
      "Applies to": ({ applies }) => words(applies),
      Factor: ({ factor }) => `× ${number(factor)}`,
      From: "startsAt",
      Until: "expiresAt",
    },
    wide: ["From"],
    right: ["Factor"],
  },
  segments: {
    title: "Segments",
    one: "segment",
    about: "Groups of players, by a list or by conditions that are kept up to date.",
    form: { first: ["name", "key", "kind", "definition"], initial: { kind: "DYNAMIC" } },
    columns: { Kind: "kind", Members: "memberCount" },
    more: (segment) => <Members segment={segment} />,
  },
  levels: {
    title: "Level names",
    one: "level",
    about: "Names, rewards and perks of single levels.",
    form: { first: ["name", "key", "rewards"] },
    columns: {
      Rewards: ({ rewards }) =>
        Object.keys(rewards ?? {})
          .map(words)
          .join(", ") || "–",
    },
  },
};

const pathOf = (kind: string): string => (kind === "currencies" ? "/economy" : `/economy/${kind}`);

export const Economy = ({ kind = "currencies" }: { kind?: string }) => {
  const can = useCan();
  const [job, setJob] = useState<string>();
  const kinds = Object.entries(KINDS).map(([name, of]) => [
    name,
    can(operation("list", name)) && [
      of.title,
      () => (
        <Definitions
          {...of}
          id={operation("list", name) as "listBadges"}
          name={of.title}
          at={`/economy/${name}`}
          filters={["search", "status"]}
        />
      ),
    ],
  ]);
  return (
    <Page
      title="Economy"
      actions={form("startBulkGrant", "Give to many", {
        first: ["segmentKey", "bundle", "reason"],
        submit: "Give",
        done: "Giving",
        onDone: ({ id }) => setJob(id),
      })}
      open={kind}
      at="/economy"
      pages={{
        ...Object.fromEntries(kinds),
        curve: ["Level curve", () => <Curve />],
        "event-types": ["Event types", () => <EventTypes />],
      }}
    >
      {job && <JobProgress id={job} title="Grant to many" />}
    </Page>
  );
};

export const DefinitionPage = ({ kind, id }: { kind: string; id: string }) =>
  Object.hasOwn(KINDS, kind) ? <Definition kind={kind} of={KINDS[kind]!} id={id} /> : <Economy kind={kind} />;

const Definition = ({ kind, of, id }: { kind: string; of: Kind; id: string }) => {
  const go = useGo();
  const path = { [`${of.one}Id`]: id };
  const found = useAny(operation("get", of.one), { path });
  const row = found.data;
  return (
    <Page
      title={row?.name ?? words(of.one)}
      parent={[of.title, pathOf(kind)]}
      actions={
        row?.status === "ACTIVE" &&
        ask(operation("archive", of.one), "Archive", {
          path: path as never,
          of: row.name,
          name: row.key,
          onDone: () => go(pathOf(kind)),
          text: "It cannot be given any more. What players have of it stays.",
        })
      }
    >
      <Loaded query={found}>
        {(data: any) => (
          <Grid>
            <Grid.Col span={{ base: 12, md: of.more ? 6 : 8 }}>
              <Facts
                of={data}
                show={{ Status: "status", Key: "key", Version: "version", Changed: "updatedAt" }}
              />
              <DefinitionForm
                of={data}
                id={operation("update", of.one)}
                path={path}
                first={of.form.first}
                fixed={"version" in data ? { version: data.version } : {}}
                hidden={["key", "version", "kind"]}
                key={data.version}
              />
            </Grid.Col>
            {of.more && <Grid.Col span={{ base: 12, md: 6 }}>{of.more(data)}</Grid.Col>}
          </Grid>
        )}
      </Loaded>
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

const Stock = ({ reward }: { reward: any }) => {
  const path = { rewardId: reward.id };
  return (
    <Section
      title="Stock"
      actions={reward.fulfilment === "CODE" && form("addRewardCodes", "Add codes", { path, submit: "Add" })}
    >
      <Read id="getRewardStock" given={{ path }} lines={2}>
        {({ given, left, freeCodes }) => (
          <Tiles
            columns={2}
            of={{ Given: given, Left: left ?? "no limit", "Free codes": freeCodes ?? undefined }}
          />
        )}
      </Read>
      <Group>
        {form("grantReward", "Give to a player", { path, first: ["playerId", "quantity"], submit: "Give" })}
      </Group>
    </Section>
  );
};

const Members = ({ segment: { id, kind, memberCount } }: { segment: any }) => {
  const path = { segmentId: id };
  return (
    <List
      section={count(memberCount, "members")}
      beside={
        kind === "STATIC" && [
          form("addSegmentMembers", "Add", { path }),
          form("removeSegmentMembers", "Remove", { path }),
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

const Curve = () => (
  <Read id="getLevelCurve">
    {(curve) => (
      <Grid>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <CurveForm curve={curve} key={curve.version} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <PlainTable
            section={`XP for each of ${number(curve.maxLevel)} levels`}
            rows={curve.thresholds.slice(0, 100).map((xp, index) => ({
              level: index + 1,
              xp,
              more: xp - (curve.thresholds[index - 1] ?? 0),
            }))}
            columns={{ Level: "level", "From XP": "xp", "More than the one before": "more" }}
          />
        </Grid.Col>
      </Grid>
    )}
  </Read>
);

const CurveForm = ({ curve: { type, params } }: { curve: Answer<"getLevelCurve"> }) => {
  const initial = { type, params };
  const [value, setValue] = useState<any>(initial);
  const [job, setJob] = useState<string>();
  const preview = useMutation({
    mutationFn: () => {
      const { recalculate: _later, ...body } = value;
      return call("previewLevelCurve", { body });
    },
  });
  return (
    <Stack>
      <DefinitionForm
        of={{}}
        id="putLevelCurve"
        initial={initial}
        onChange={setValue}
        onDone={({ job: started }) => started && setJob(started.id)}
      >
        {press("Where would players be?", preview.mutate, { loading: preview.isPending })}
      </DefinitionForm>
      <ErrorNote error={preview.error} />
      {job && <JobProgress id={job} title="Levels of all players" />}
      <Modal opened={preview.data !== undefined} onClose={preview.reset} title="Players by level">
        <Bars
          rows={(preview.data?.distribution ?? []).map(({ level, players }) => ({
            name: `Level ${level}`,
            value: players,
          }))}
        />
      </Modal>
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
          <DefinitionForm
            of={{}}
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
