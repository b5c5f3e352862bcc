// Icons as SVG paths on a 24-unit grid, drawn in the text's colour. They are decoration: buttons carry the labels.

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7.500 7.500h9v9h-9z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.500l4.500 4.500L19 7.500",
  edit: "M4 20h4L19 9l-4-4L4 16zM13.500 6.500l4 4",
  retry: "M20 11a8 8 0 1 0-2.300 6.300M20 5v6h-6",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M6 9l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  clip: "M20 11l-8.500 8.500a5 5 0 0 1-7-7L13 4a3.500 3.500 0 0 1 5 5l-8.500 8.500a2 2 0 0 1-3-3L14 7",
  sliders: "M4 7h10M18 7h2M4 12h2M10 12h10M4 17h8M16 17h4M14 5v4M6 10v4M12 15v4",
  gauge: "M4 17a8.500 8.500 0 1 1 16 0M12 15l4-5",
  layers: "M12 4l8.500 4.500L12 13 3.500 8.500zM3.500 12.500L12 17l8.500-4.500M3.500 16.500L12 21l8.500-4.500",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1.500M12 19.500V21M4.500 12H3M21 12h-1.500M6 6L5 5M19 19l-1-1M18 6l1-1M5 19l1-1",
  moon: "M19.500 14A8 8 0 0 1 10 4.500 8 8 0 1 0 19.500 14",
  screen: "M4 5h16v11H4zM9 20h6M12 16v4",
  key: "M15 4a5 5 0 1 0 0 10 5 5 0 0 0 0-10M11.500 12.500L4 20M7 17l2 2",
  help: "M9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.7.300-1 .8-1 1.700M12 17v.2M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17",
  upload: "M12 15V5M8 9l4-4 4 4M5 15v4h14v-4",
  download: "M12 5v10M8 11l4 4 4-4M5 15v4h14v-4",
  bulb: "M9.500 17h5M10 20h4M12 4a6 6 0 0 0-3.500 10.800c.6.500 1 1.200 1 2.200h5c0-1 .4-1.700 1-2.200A6 6 0 0 0 12 4",
  tool: "M14.500 6.500a4 4 0 0 0-5 5L4 17l3 3 5.500-5.500a4 4 0 0 0 5-5L15 12l-3-3z",
} as const;

/** The name of an icon. */
export type IconName = keyof typeof PATHS;

/** An icon. */
export function Icon({ name, size = 18 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
