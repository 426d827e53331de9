//! Threads that keep an object by a reference in one register, or in the red zone, and nowhere else.

use std::sync::atomic::AtomicBool;

/// `(disguised, end, ready)`
pub type KeepAliveFn = extern "C" fn(usize, *const AtomicBool, *const AtomicBool);

/// A keeper that holds the address where `take` (from rdi) puts it, and clears it by `forget`. rsi and rdx point to the flags, and rcx is
/// free.
macro_rules! keeper {
    ($name:ident, [$($take:expr),*], [$($forget:expr),*]) => {
        #[unsafe(naked)]
        pub extern "C" fn $name(disguised: usize, end: *const AtomicBool, ready: *const AtomicBool) {
            std::arch::naked_asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                "not rdi",
                $($take,)*
                "xor edi, edi",
                "mov byte ptr [rdx], 1",
                "2: pause",
                "cmp byte ptr [rsi], 0",
                "je 2b",
                $($forget,)*
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                "ret",
            )
        }
    };
}

macro_rules! general {
    ($($name:ident = $register:literal),* $(,)?) => {
        $(keeper!($name, [concat!("mov ", $register, ", rdi")], [concat!("xor ", $register, ", ", $register)]);)*
    };
}

general! {
    rax = "rax", rbx = "rbx", rcx = "rcx", rbp = "rbp", r8 = "r8", r9 = "r9", r10 = "r10", r11 = "r11", r12 = "r12",
    r13 = "r13", r14 = "r14", r15 = "r15",
}
keeper!(xmm0, ["movq xmm0, rdi"], ["pxor xmm0, xmm0"]);
keeper!(xmm0_high, ["movq xmm0, rdi", "pslldq xmm0, 8"], ["pxor xmm0, xmm0"]);
keeper!(xmm7, ["movq xmm7, rdi"], ["pxor xmm7, xmm7"]);
keeper!(xmm15, ["movq xmm15, rdi"], ["pxor xmm15, xmm15"]);
keeper!(
    ymm3_high,
    ["vmovq xmm2, rdi", "vpxor xmm3, xmm3, xmm3", "vinsertf128 ymm3, ymm3, xmm2, 1", "vpxor xmm2, xmm2, xmm2"],
    ["vzeroall"]
);
keeper!(
    ymm12_high,
    ["vmovq xmm2, rdi", "vpxor xmm12, xmm12, xmm12", "vinsertf128 ymm12, ymm12, xmm2, 1", "vpxor xmm2, xmm2, xmm2"],
    ["vzeroall"]
);
keeper!(
    zmm5_high,
    ["vmovq xmm2, rdi", "vpxorq zmm5, zmm5, zmm5", "vinserti64x4 zmm5, zmm5, ymm2, 1", "vpxor xmm2, xmm2, xmm2"],
    ["vzeroall"]
);
keeper!(
    zmm20,
    ["vmovq xmm2, rdi", "vpbroadcastq zmm20, xmm2", "vpxor xmm2, xmm2, xmm2"],
    ["vpxorq zmm20, zmm20, zmm20"]
);
keeper!(red_zone_near, ["mov [rsp - 8], rdi"], ["mov qword ptr [rsp - 8], 0"]);
keeper!(red_zone_far, ["mov [rsp - 128], rdi"], ["mov qword ptr [rsp - 128], 0"]);

/// The processor features that a keeper needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    Avx,
    Avx512,
}

impl Needs {
    pub fn are_met(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Avx => std::arch::is_x86_feature_detected!("avx"),
            Self::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        }
    }
}

/// Holds the address in r12, and sleeps in the kernel for 20 ms at a time.
#[unsafe(naked)]
pub extern "C" fn r12_asleep(disguised: usize, end: *const AtomicBool, ready: *const AtomicBool) {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 24",
        "not rdi",
        "mov r12, rdi",
        "mov r13, rsi",
        "mov qword ptr [rsp], 0",
        "mov qword ptr [rsp + 8], 20000000",
        "mov byte ptr [rdx], 1",
        "2: mov eax, 35",
        "mov rdi, rsp",
        "xor esi, esi",
        "syscall",
        "cmp byte ptr [r13], 0",
        "je 2b",
        "xor r12, r12",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// All keepers, by name.
pub const KEEPERS: [(&str, KeepAliveFn, Needs); 23] = [
    ("rax", rax, Needs::Nothing),
    ("rbx", rbx, Needs::Nothing),
    ("rcx", rcx, Needs::Nothing),
    ("rbp", rbp, Needs::Nothing),
    ("r8", r8, Needs::Nothing),
    ("r9", r9, Needs::Nothing),
    ("r10", r10, Needs::Nothing),
    ("r11", r11, Needs::Nothing),
    ("r12", r12, Needs::Nothing),
    ("r13", r13, Needs::Nothing),
    ("r14", r14, Needs::Nothing),
    ("r15", r15, Needs::Nothing),
    ("xmm0", xmm0, Needs::Nothing),
    ("xmm0_high", xmm0_high, Needs::Nothing),
    ("xmm7", xmm7, Needs::Nothing),
    ("xmm15", xmm15, Needs::Nothing),
    ("ymm3_high", ymm3_high, Needs::Avx),
    ("ymm12_high", ymm12_high, Needs::Avx),
    ("zmm5_high", zmm5_high, Needs::Avx512),
    ("zmm20", zmm20, Needs::Avx512),
    ("red_zone_near", red_zone_near, Needs::Nothing),
    ("red_zone_far", red_zone_far, Needs::Nothing),
    ("r12_asleep", r12_asleep, Needs::Nothing),
];
