import { Badge, Button, Code, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { type Id, operation } from "../api/client.ts";
import { useAct, useAny, useCan, useGo } from "../api/hooks.ts";
import { own, words } from "../format.ts";
import { act, ask, form, OperationForm } from "./operations.tsx";
import { Hint, Json, Loaded, Page, Pages, Status, type TabPages } from "./page.tsx";
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

/** What is no part of a definition itself. */
const KEPT = /^(id|status|draft|draftVersion|publishedVersion|published|createdAt|updatedAt|pauseReason)$/;

/** A definition with its draft, whose fields may stand beside its state. */
const draftedOf = (row: any): Drafted => {
  const fields = Object.entries(row).filter(([name, value]) => !KEPT.test(name) && value !== null);
  return { draft: Object.fromEntries(fields), ...row };
};

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
  done?: string;
  children?: ReactNode;
};

/** The form of a draft; whoever may not change it sees it as JSON. */
export const DraftForm = ({ kind, of, done = "Draft saved", ...rest }: FormProps) => {
  const can = useCan();
  const id = operation("update", kind);
  if (!can(id) || of.status === "ARCHIVED") return <Json value={of.draft} />;
  return (
    <OperationForm
      {...rest}
      id={id}
      path={{ [`${kind}Id`]: of.id }}
      initial={of.draft}
      fixed={{ draftVersion: of.draftVersion }}
      hidden={["draftVersion"]}
      submit="Save the draft"
      done={done}
      key={of.draftVersion}
    />
  );
};

type Props = { of: Drafted; kind: DraftKind };

/** Buttons for what a draft and its published version go through. */
const Actions = ({ of, kind }: Props) => {
  const can = useCan();
  const go = useGo();
  const [isOpen, { open, close }] = useDisclosure(false);
  const path: any = { [`${kind}Id`]: of.id };
  const { status, name } = of;
  if (!can(operation("publish", kind))) return null;
  const isActive = status === "ACTIVE";
  const isPaused = status === "PAUSED";
  const isArchived = status === "ARCHIVED";
  return (
    <>
      {!isArchived && (
        <Button variant={isPublished(of) ? "default" : "filled"} onClick={open} aria-haspopup="dialog">
          Publish…
        </Button>
      )}
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
        initial: { key: `${of.key}-copy`, name: `${name} (copy)` },
        onDone: ({ id }) => go(`/${kind}s/${id}`),
      })}
      {!isArchived &&
        ask(operation("archive", kind), "Archive", {
          path,
          of: name,
          name: of.key,
          onDone: () => go(`/${kind}s`),
          text: "It stops and leaves the lists. What players have got through it stays.",
        })}
      <Modal opened={isOpen} onClose={close} title={`Publish ${name}`} size="xl">
        {isOpen && <Publish of={of} id={operation("publish", kind)} path={path} onDone={close} />}
      </Modal>
    </>
  );
};

type PublishProps = { of: Drafted; id: Id; path: object; onDone: () => void };

const Publish = ({ of, id, path, onDone }: PublishProps) => {
  const publish = useAct(id, { done: "Published", onDone });
  return (
    <Stack>
      <Text>
        {of.published
          ? `What changes against version ${of.publishedVersion}:`
          : "Players have not seen it yet: this is its first version."}
      </Text>
      {of.published && <Diff before={of.published} after={of.draft} />}
      <Group justify="flex-end">
        {form(id, "With options", { path, submit: "Publish", onDone })}
        <Button loading={publish.isPending} onClick={() => publish.mutate({ path, body: {} } as never)}>
          Publish
        </Button>
      </Group>
    </Stack>
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

/** What is different, line by line: what was, what is. */
const Diff = ({ before, after }: { before: unknown; after: unknown }) => {
  const changes = changesOf(before, after);
  if (changes.length === 0) return <Hint>Nothing is different.</Hint>;
  return (
    <div>
      {changes.map(({ path, before: was, after: is }) => (
        <div key={path} style={{ marginBottom: 8 }}>
          <Text fw={600}>{path}</Text>
          <Code
            block
            className="json"
            tabIndex={0}
            style={{ borderLeft: "3px solid var(--mantine-color-red-6)" }}
          >
            {`− ${show(was)}`}
          </Code>
          <Code
            block
            className="json"
            tabIndex={0}
            style={{ borderLeft: "3px solid var(--mantine-color-teal-6)" }}
          >
            {`+ ${show(is)}`}
          </Code>
        </div>
      ))}
    </div>
  );
};
