import { Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { useFilters } from "./filters.ts";

/** A tab: its title, and what it shows; false: not for this person. */
export type TabPages = Record<string, false | [title: string, show: () => ReactNode]>;

type Props = {
  pages: TabPages;
  /** Which one is open, and what opens another: without these the address holds it as `tab`. */
  open?: string;
  onOpen?: (name: string) => void;
};

/** Parts of a screen, of which one is shown; the first unless the address says otherwise. */
export const Pages = ({ pages, open, onOpen }: Props) => {
  const entries = Object.entries(pages).filter(
    (entry): entry is [string, [string, () => ReactNode]] => entry[1] !== false,
  );
  const first = entries[0]?.[0] ?? "";
  const [{ tab }, choose] = useFilters({ tab: first });
  const wanted = open ?? tab ?? first;
  const shown = entries.some(([name]) => name === wanted) ? wanted : first;
  return (
    <Tabs
      value={shown}
      onChange={(next) => (onOpen ?? ((name) => choose({ tab: name })))(next ?? first)}
      keepMounted={false}
    >
      <Tabs.List mb="sm">
        {entries.map(([name, [title]]) => (
          <Tabs.Tab key={name} value={name}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {entries.map(([name, [, show]]) => (
        <Tabs.Panel key={name} value={name}>
          {name === shown && show()}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
};
