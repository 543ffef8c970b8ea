import { Badge, Code, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { operation } from "../api/client.ts";
import { useAny, useGo } from "../api/hooks.ts";
import { own, words } from "../format.ts";
import { DefinitionForm, definitionOf } from "./catalogue.tsx";
import { act, ask, form } from "./operations.tsx";
import { Hint, Loaded, Page, Pages, Status, type TabPages } from "./page.tsx";
import { Rows } from "./table.tsx";

/** A kind of definition that has a draft and published versions, by which its operations are named. */
type DraftKind = "rule" | "quest" | "adventure";

type Drafted = {
  id: string;
  key: string;
  name: string;
  status: string;
  draft: any;
  published: any;
  draftVersion: number;
  publishedVersion: number | null;
};

/** A definition with its draft, whose fields may stand beside its state. */
const draftedOf = (row: any): Drafted => ({ draft: definitionOf(row), ...row });

/** How the form of something new is sent. */
export const DRAFT = { submit: "Save the draft", done: "Saved as a draft: publish it when it is right" };

const isPublished = (of: Drafted): boolean => JSON.stringify(of.draft) === JSON.stringify(of.published);

type PageProps = {
  kind: DraftKind;
  id: string;
  /** Parts of the screen between the form and the versions. */
  pages: (of: any) => TabPages;
  /** Between the state and the parts. */
  note?: (of: any) => ReactNode;
  design: (of: any) => ReactNode;
};

/** The screen of one definition: its form, what else there is to it, and its versions. */
export const DraftPage = ({ kind, id, pages, note, design }: PageProps) => {
  const found = useAny(operation("get", kind), { path: { [`${kind}Id`]: id } });
  const of = found.data && draftedOf(found.data);
  return (
    <Page
      title={of?.name ?? words(kind)}
      parent={[`${words(kind)}s`, `/${kind}s`]}
      actions={of && <Actions of={of} kind={kind} />}
    >
      <Loaded query={found}>
        {() => (
          <Stack>
            <Group gap="xs">
              <Status value={of.status} />
              {of.publishedVersion != null && <Badge color="gray">{`Version ${of.publishedVersion}`}</Badge>}
              {of.published && !isPublished(of) && <Badge color="yellow">Unpublished changes</Badge>}
            </Group>
            {note?.(of)}
            <Pages
              pages={{
                design: ["Design", () => design(of)],
                ...pages(of),
                versions: ["Versions", () => <Versions of={of} kind={kind} />],
              }}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

type FormProps = {
  kind: DraftKind;
  of: any;
  first: readonly string[];
  onChange?: (value: any) => void;
  children?: ReactNode;
};

/** The form of a draft. */
export const DraftForm = ({ kind, of, ...rest }: FormProps) => (
  <DefinitionForm
    {...rest}
    of={of}
    id={operation("update", kind)}
    path={{ [`${kind}Id`]: of.id }}
    initial={of.draft}
    fixed={{ draftVersion: of.draftVersion }}
    hidden={["draftVersion"]}
    submit="Save the draft"
    done="Draft saved: players see it once it is published"
    key={of.draftVersion}
  />
);

type Props = { of: Drafted; kind: DraftKind };

/** Buttons for what a draft and its published version go through. */
const Actions = ({ of, kind }: Props) => {
  const go = useGo();
  const path: any = { [`${kind}Id`]: of.id };
  const { status, name, key } = of;
  const isActive = status === "ACTIVE";
  const isPaused = status === "PAUSED";
  return (
    <>
      {status !== "ARCHIVED" &&
        form(operation("publish", kind), "Publish…", {
          path,
          title: `Publish ${name}`,
          isMain: !isPublished(of),
          about: of.published ? (
            <>
              {`What changes against version ${of.publishedVersion}:`}
              <Diff before={of.published} after={of.draft} />
            </>
          ) : (
            "Players have not seen it yet: this is its first version."
          ),
          first: ["changeNote"],
          submit: "Publish",
          done: "Published",
        })}
      {isActive && act(operation("pause", kind), "Pause", { path, done: "Paused" })}
      {(isPaused || status === "SHADOW") &&
        act(operation("resume", kind), "Resume", { path, done: "Running again" })}
      {isActive && act(operation("shadow", kind), "Shadow", { path, done: "It runs in the shadow" })}
      {(isActive || isPaused) &&
        ask(operation("end", kind), "End", {
          path,
          of: name,
          text: "Nobody can go on with it. It stays visible to those who took part.",
        })}
      {form(operation("duplicate", kind), "Duplicate", {
        path,
        initial: { key: `${key}-copy`, name: `${name} (copy)` },
        onDone: ({ id }) => go(`/${kind}s/${id}`),
      })}
      {status !== "ARCHIVED" &&
        ask(operation("archive", kind), "Archive", {
          path,
          of: name,
          name: key,
          onDone: () => go(`/${kind}s`),
          text: "It stops and leaves the lists. What players have got through it stays.",
        })}
    </>
  );
};

/** Published versions, and back to one of them. */
const Versions = ({ of, kind }: Props) => {
  const path: any = { [`${kind}Id`]: of.id };
  return (
    <Rows
      id={operation("list", `${kind}Versions`) as "listRuleVersions"}
      given={{ path, query: { limit: 50 } }}
      name="Versions"
      empty="Nothing is published yet"
      dialog={[
        ({ version }) => `Version ${version} and the draft`,
        ({ definition }) => <Diff before={definition} after={of.draft} />,
      ]}
      columns={{ Version: "version", Published: "publishedAt", By: "publishedBy", Note: "changeNote" }}
      wide={["By"]}
      actions={({ version }) =>
        version !== of.publishedVersion &&
        ask(operation("rollback", kind), "Publish again", {
          path,
          body: { version } as never,
          title: `Publish version ${version} again?`,
          color: "teal",
          done: "The older version is published again",
          text: "Players see it at once, as a new version.",
        })
      }
    />
  );
};

type Change = { path: string; before: unknown; after: unknown };

/** Lists where two definitions differ, by path. */
const changesOf = (before: unknown, after: unknown, path = ""): Change[] => {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null;
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after))
    return [{ path, before, after }];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
    changesOf(own(before, name), own(after, name), path === "" ? name : `${path}.${name}`),
  );
};

const show = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

const DiffLine = ({ colour, text }: { colour: string; text: string }) => (
  <Code
    block
    className="json"
    tabIndex={0}
    style={{ borderLeft: `3px solid var(--mantine-color-${colour}-6)` }}
  >
    {text}
  </Code>
);

/** What is different, line by line: what was, what is. */
const Diff = ({ before, after }: { before: unknown; after: unknown }) => {
  const changes = changesOf(before, after);
  if (changes.length === 0) return <Hint>Nothing is different.</Hint>;
  return (
    <div>
      {changes.map(({ path, before: was, after: is }) => (
        <div key={path} style={{ marginBottom: 8 }}>
          <Text fw={600}>{path}</Text>
          <DiffLine colour="red" text={`− ${show(was)}`} />
          <DiffLine colour="teal" text={`+ ${show(is)}`} />
        </div>
      ))}
    </div>
  );
};
