// ufp4 - the library of ufp4.h from Rust, through a binding by hand; prints what first.c prints.
// SPDX-License-Identifier: Apache-2.0
//
//   g++ -std=c++20 -O3 -shared -fPIC -I include cmake/c.cpp -Wl,--version-script=cmake/c.map -o libufp4.so -pthread
//   rustc -O examples/c/first.rs -L . -C link-arg=-Wl,-rpath,. && ./first
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr::null;

#[repr(C)]
struct Matrix {
    data: *mut c_void,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    dtype: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Transform {
    n: u32,
    rounds_to_bf16: u32,
    signs: [u32; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Format {
    values: [f32; 16],
    scale: i32,
    block_rows: i32,
    block_cols: i32,
    has_tensor_scale: i32,
    element: i32,
}

#[repr(C)]
struct Quantized {
    format: Format,
    transform: Transform,
    rows: usize,
    cols: usize,
    codes: *mut u8,
    scales: *mut c_void,
    codes_size: usize,
    scales_size: usize,
    tensor_scale: f32,
    layout: i32,
}

#[repr(C)]
struct GemmOptions {
    struct_size: usize,
    bias: *const f32,
    alpha: f32,
    beta: f32,
    accumulate: i32,
}

#[link(name = "ufp4")]
extern "C" {
    fn ufp4_error_message() -> *const c_char;
    fn ufp4_preset(name: *const c_char, format: *mut Format) -> i32;
    fn ufp4_random_hadamard(n: u32, seed: u64, transform: *mut Transform) -> i32;
    fn ufp4_quantized_init(f: *const Format, rows: usize, cols: usize, t: *const Transform, q: *mut Quantized) -> i32;
    fn ufp4_quantize(context: *const c_void, x: *const Matrix, options: *const c_void, q: *mut Quantized) -> i32;
    fn ufp4_gemm(context: *const c_void, a: *const Quantized, b: *const Quantized, c: *const Matrix,
                 options: *const GemmOptions) -> i32;
}

fn result(status: i32) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    Err(unsafe { CStr::from_ptr(ufp4_error_message()) }.to_string_lossy().into_owned())
}

fn matrix(values: &mut [f32], rows: usize, cols: usize) -> Matrix {
    Matrix { data: values.as_mut_ptr().cast(), rows, cols, row_stride: cols as isize, col_stride: 1, dtype: 0 }
}

/// A quantized matrix and its memory.
struct Owner {
    q: Quantized,
    _codes: Vec<u8>,
    _scales: Vec<f32>,
}

fn quantized(preset: &CStr, x: &Matrix, transform: &Transform) -> Result<Owner, String> {
    let mut format = Format::default();
    let mut q: Quantized = unsafe { std::mem::zeroed() };
    result(unsafe { ufp4_preset(preset.as_ptr(), &mut format) })?;
    result(unsafe { ufp4_quantized_init(&format, x.rows, x.cols, transform, &mut q) })?;
    let mut codes = vec![0u8; q.codes_size];
    let mut scales = vec![0f32; q.scales_size / 4];
    q.codes = codes.as_mut_ptr();
    q.scales = scales.as_mut_ptr().cast();
    result(unsafe { ufp4_quantize(null(), x, null(), &mut q) })?;
    Ok(Owner { q, _codes: codes, _scales: scales })
}

fn main() -> Result<(), String> {
    const M: usize = 2;
    const N: usize = 3;
    const K: usize = 64;
    let mut x: Vec<f32> = (0..M * K).map(|i| (i * 7919 % 1009) as f32 - 504.0).collect();
    let mut w: Vec<f32> = (0..N * K).map(|i| (i * 31 % 17) as f32 / 8.0 - 1.0).collect();
    let mut y = [0f32; M * N];
    let mut rht = Transform::default();
    result(unsafe { ufp4_random_hadamard(16, 42, &mut rht) })?;
    let preset = CStr::from_bytes_with_nul(b"e1m2_f32\0").unwrap();
    let qx = quantized(preset, &matrix(&mut x, M, K), &rht)?;
    let qw = quantized(preset, &matrix(&mut w, N, K), &rht)?;

    let struct_size = std::mem::size_of::<GemmOptions>();
    let exact_blocks = GemmOptions { struct_size, bias: null(), alpha: 1.0, beta: 0.0, accumulate: 1 };
    let mut ym = matrix(&mut y, M, N);
    result(unsafe { ufp4_gemm(null(), &qx.q, &qw.q, &ym, &exact_blocks) })?;
    for row in y.chunks(N) {
        println!("{:10.3} {:10.3} {:10.3}", row[0], row[1], row[2]);
    }
    ym.cols = 2;
    if let Err(message) = result(unsafe { ufp4_gemm(null(), &qx.q, &qw.q, &ym, null()) }) {
        println!("{message}");
    }
    Ok(())
}
